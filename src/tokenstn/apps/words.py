"""The two flags in words, for people who turn a photo and wonder."""

from __future__ import annotations

from dataclasses import dataclass

from tokenstn.apps.sight import Sight

NUMBERS = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six"}


@dataclass(frozen=True)
class Remark:
    """A sentence with a title; ``alarm`` where it is a warning, None where nothing is known."""

    title: str
    text: str
    alarm: bool | None


def remarks(sight: Sight) -> tuple[Remark, Remark]:
    """What to think of the pose, and of the label."""
    return _of_pose(sight), _of_class(sight)


def _of_pose(sight: Sight) -> Remark:
    if not sight.answer["estimated"]:
        return Remark("Pose", "This model has no rectifier: the image is classified as it is.", None)
    ambiguous = sight.answer["pose_ambiguous"]
    if ambiguous is None:
        return Remark("Pose", sight.why_no_flags or "", None)
    if not ambiguous:
        return Remark("One pose fits", "One orientation stands out.", False)
    if "pose_ambiguous" in sight.uncalibrated:
        return Remark("Pose", _as_sentence(sight.uncalibrated["pose_ambiguous"]), True)
    fits = sight.orientations()
    classes = list(dict.fromkeys(one.seen for one in fits))
    if len(fits) < 2:
        return Remark("The pose is vague", "Many angles fit about equally well.", True)
    count = NUMBERS.get(len(fits), str(len(fits)))
    if len(classes) == 1:
        return Remark("Several poses fit", f"{classes[0]} in each of them: {count} orientations fit.", True)
    return Remark("Several poses fit", f"Could be {_either(classes)}: {count} orientations fit.", True)


def _of_class(sight: Sight) -> Remark:
    uncertain = sight.answer["class_uncertain"]
    if uncertain is None:
        return Remark("Label", sight.why_no_flags or "This model gives no warning about labels.", None)
    if uncertain and "class_uncertain" in sight.uncalibrated:
        return Remark("Label", _as_sentence(sight.uncalibrated["class_uncertain"]), True)
    if uncertain:
        return Remark("Label in doubt", "Do not rely on it: answers like this one are wrong too often.", True)
    return Remark("Label accepted", sight.promise or "", False)


def _as_sentence(words: str) -> str:
    """
    >>> _as_sentence("not calibrated")
    'Not calibrated.'
    """
    return f"{words[:1].upper()}{words[1:]}."


def _either(names: list[str]) -> str:
    """
    >>> _either(["6", "9"]), _either(["a", "b", "c"])
    ('6 or 9', 'a, b or c')
    """
    return f"{', '.join(names[:-1])} or {names[-1]}"
