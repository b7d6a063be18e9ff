"""What the page knows about an image, with the model inside the package: beliefs, orientations, and their words."""

import math
from dataclasses import replace
from xml.etree import ElementTree

import pytest
import torch

import tokenstn
from tokenstn.apps.embedded import embedded_examples, embedded_model
from tokenstn.apps.moves import Moves
from tokenstn.apps.polar import RIM, dial
from tokenstn.apps.show import parts
from tokenstn.apps.sight import ANGLES, Needle, look_at
from tokenstn.apps.words import remarks
from tokenstn.posteriors.circular import bin_angles


@pytest.fixture(scope="module")
def model():
    return tokenstn.load(embedded_model())


@pytest.fixture(scope="module")
def examples():
    return embedded_examples()


@pytest.fixture(scope="module")
def sight(model, examples):
    return look_at(model, examples[0].photo)


def test_the_embedded_model_is_small_and_repairs_its_examples(model, examples):
    assert sum(path.stat().st_size for path in embedded_model().iterdir()) < 2.5e6
    clear = [example for example in examples if example.label in "7425"]
    found = [look_at(model, Moves(turn=one.turn).apply(one.photo)) for one in clear]
    assert [one.answer["prediction"] for one in found] == [one.label for one in clear]
    bare = [max(one.bare, key=one.bare.get) for one in found]
    assert sum(name != one.label for name, one in zip(bare, clear, strict=True)) >= 2  # or there is nothing to show


def test_turning_the_photo_turns_the_belief(model, examples, sight):
    turned = look_at(model, Moves(turn=90).apply(examples[0].photo))
    difference = turned.answer["rotation_deg"] - sight.answer["rotation_deg"]
    assert abs((difference - 90 + 180) % 360 - 180) < 12
    peak, turned_peak = (max(range(ANGLES), key=lambda k: one.belief[k]) for one in (sight, turned))
    assert abs((turned_peak - peak - ANGLES // 4 + ANGLES // 2) % ANGLES - ANGLES // 2) <= 6


def test_the_belief_is_a_density_and_the_needles_are_the_views(sight):
    assert sum(sight.belief) * 2 * math.pi / ANGLES == pytest.approx(1, abs=0.01)
    assert sum(needle.weight for needle in sight.needles) == pytest.approx(1)
    assert len(sight.needles) == sight.answer["views"]
    assert math.degrees(sight.needles[0].angle) == pytest.approx(sight.answer["rotation_deg"], abs=0.01)


def test_one_view_gives_one_needle_and_no_warning(model, examples):
    one = look_at(model, examples[0].photo, views=1)
    assert len(one.needles) == 1 and one.answer["pose_ambiguous"] is None
    assert all(remark.alarm is None and "calibrated" in remark.text for remark in remarks(one))


def test_a_digit_that_could_be_two_says_so(model, examples):
    nine = next(example for example in examples if example.label == "9")
    of_pose, _ = remarks(look_at(model, nine.photo))
    assert of_pose.alarm
    assert of_pose.text in [f"Could be {both}: two orientations fit." for both in ("9 or 6", "6 or 9")]


def test_a_round_zero_has_no_pose_but_a_label(model, examples):
    zero = next(example for example in examples if example.label == "0")
    of_pose, of_class = remarks(look_at(model, zero.photo))
    assert of_pose.alarm and not of_class.alarm and "5\u202f%" in of_class.text


def test_a_flag_without_a_threshold_says_nothing_about_the_image(examples):
    unsure = tokenstn.load(embedded_model())
    limits = unsure.thresholds
    unsure.thresholds = replace(
        limits, of_class=replace(limits.of_class, threshold=None), of_pose=replace(limits.of_pose, threshold=None)
    )
    seen = look_at(unsure, examples[0].photo)
    assert seen.answer["class_uncertain"] and seen.answer["pose_ambiguous"]
    assert [remark.alarm for remark in remarks(seen)] == [True, True]
    _, page = parts(seen, 0.0)
    assert page.count("Not calibrated: every image is flagged, because no threshold keeps the risk below 5 %") == 2
    assert not any(words in page for words in ("in doubt", "wrong too often", "angles fit", "orientations fit"))


@pytest.mark.parametrize(
    ("needles", "text"),
    [
        ([(0.1, 0.5, "8"), (3.1, 0.5, "8")], "8 in each of them: two orientations fit."),
        ([(0.1, 0.4, "6"), (0.3, 0.2, "5"), (-3.1, 0.4, "9")], "Could be 6 or 9: two orientations fit."),
        ([(0.0, 0.4, "a"), (2.0, 0.3, "b"), (-2.0, 0.3, "c")], "Could be a, b or c: three orientations fit."),
        ([(3.1, 0.5, "6"), (-3.1, 0.5, "6")], "Many angles fit about equally well."),  # the same, across the seam
        ([(0.1, 0.9, "6"), (3.1, 0.1, "9")], "Many angles fit about equally well."),  # too light to mention
    ],
)
def test_orientations_in_words(sight, needles, text):
    made = replace(sight, needles=[Needle(*one) for one in needles], answer={**sight.answer, "pose_ambiguous": True})
    assert remarks(made)[0].text == text


def test_the_dial_points_clockwise_from_the_top():
    drawing = dial([1.0] * 36, [Needle(math.pi / 2, 1.0, "6")], math.pi, "a dial")
    root = ElementTree.fromstring(drawing)
    best = next(part for part in root.iter("path") if part.get("class") == "best").get("d")
    x, y = (float(number) for number in best.rsplit("L", 1)[1].split())
    assert x == pytest.approx(RIM - 4) and abs(y) < 0.1  # a quarter turn points to the right
    mark = next(part for part in root.iter("path") if part.get("class") == "set").get("d")
    assert float(mark.split()[1].split("L")[0]) > RIM  # half a turn lies below the circle
    assert "nan" not in drawing


def test_a_model_without_rectifier_and_a_posterior_without_density_are_shown_too(model, examples):
    from tokenstn.models import TokenSTN

    kept = {"preprocessing": model.preprocessing, "classes": model.classes, "input_size": (28, 28)}
    bare = TokenSTN(model.classifier, primitives=(), **kept).eval()
    seen, said = parts(look_at(bare, examples[0].photo), 0.0)
    assert "no rotation is estimated" in seen and "no rectifier" in said and "Pose found" not in said
    point = TokenSTN(model.classifier, primitives=("rotation",), posterior="point", **kept).eval()
    shown = look_at(point, examples[0].photo)
    assert shown.belief is None and "<svg" in parts(shown, None)[0]


def test_names_of_classes_are_text_on_the_page(model, examples):
    nasty = "<img src=x onerror=alert(1)>"
    renamed = tokenstn.load(embedded_model())
    renamed.classes = (nasty, *model.classes[1:])
    zero = next(example for example in examples if example.label == "0")
    seen, said = parts(look_at(renamed, zero.photo), 0.0)
    assert "<img src=x" not in seen + said and "&lt;img src=x" in seen


def test_wide_photos_in_colour_work_with_a_model_for_grey_digits(model, examples):
    from tokenstn.apps.demo import Stage

    stage = Stage(model, [replace(examples[0], photo=torch.zeros(3, 50, 200, dtype=torch.uint8))])
    assert stage.examples[0].photo.shape == (1, 50, 200)
    seen, said = stage.show(stage.examples[0].photo, 30, 1.2, 0.1, 5, -5, True, False, 4)
    assert "<svg" in seen and "answer.json" in said
    assert stage.show(None, 0, 1, 0, 0, 0, False, True, 4)[1] == ""


def test_the_belief_about_a_mirrored_object_is_where_its_needle_is(model, examples):
    mirroring = tokenstn.TokenSTN(
        model.classifier, ("rotation", "reflection"), localization_size=28, preprocessing=model.preprocessing,
        classes=model.classes,
    ).eval()  # fmt: skip
    heads = mirroring.localizer.heads
    for head in (heads["rotation"], heads["reflection"]):
        torch.nn.init.zeros_(head[-1].weight)
    with torch.no_grad():
        heads["rotation"][-1].bias.copy_(8 * torch.cos(bin_angles() - math.radians(40)))
        heads["reflection"][-1].bias[0] = -1.0
    seen = look_at(mirroring, examples[0].photo, views=1)
    assert seen.answer["mirrored"]
    assert seen.belief is not None
    peak = max(range(ANGLES), key=seen.belief.__getitem__) * 2 * math.pi / ANGLES
    assert abs(math.remainder(peak - seen.needles[0].angle, 2 * math.pi)) < math.radians(2.1)
