"""A verdict in words, from the answers of any classifier."""

import dataclasses

import pytest
import torch

from tokenstn.evaluation.diagnosis import Remedy, diagnose_answers, needed_for_diagnosis
from tokenstn.evaluation.evaluate import evaluate, warnings_of
from tokenstn.evaluation.remedy import SAME_ANSWER
from tokenstn.geometry import rotation_group, rotoscale_group, scale_group, shear_rotoscale_group, translation_group
from tokenstn.reports.words import advice, headline, subline

from .toys import HonestSTN, Reader, bare_model, table_of

FAST = {"cost": False, "controls": False, "draws": 10}


def diagnosed(model, group, table=None, **options):
    found = evaluate(model, table or table_of(40), group=group, model_name="my-model", **(FAST | options))
    return diagnose_answers(found.evaluation, found.answers), found


def test_a_classifier_that_minds_a_turn_is_told_so():
    diagnosis, found = diagnosed(bare_model(), rotation_group(4))
    assert diagnosis.verdict == (
        "100.0% right on images as they come; loses 100 ± 4 points when turned; worst at 90°; agrees with itself on 0% "
        "of turned copies"
    )
    assert [point.at for point in diagnosis.by_angle] == [0.0, 90.0, 180.0, 270.0]
    assert [point.accuracy for point in diagnosis.by_angle] == list(found.evaluation.bare.by_element)
    wanted = "tokenstn train signposts --classifier my-model --primitives rotation --out runs/rectified"
    assert diagnosis.command == wanted and "put a rectifier in front" in diagnosis.next_steps[-1]
    assert any("above (−100 points)" in step for step in diagnosis.next_steps)


def test_images_that_are_sheared_first_are_not_called_as_they_come():
    for group, shown in (
        (shear_rotoscale_group(4, scales=1), "sheared but not moved"),
        (rotation_group(4), "as they come"),
    ):
        diagnosis, found = diagnosed(bare_model(), group)
        assert f"right on images {shown}; loses" in diagnosis.verdict
        low = dataclasses.replace(found.evaluation.bare, upright=0.1, mean=0.1, by_element=(0.1,) * 4)
        assert f"of images {shown}, which is low" in headline(dataclasses.replace(found.evaluation, bare=low))
        assert f" {shown} and " in subline(found.evaluation)


def test_the_half_width_is_that_of_the_paired_drop():
    """Half of the images lose three quarters of their turned copies, the others nothing."""
    _, found = diagnosed(bare_model(), rotation_group(5))
    correct = torch.ones(5, 40, dtype=torch.bool)
    correct[2:, :20] = False
    bare = dataclasses.replace(found.answers.bare, correct=correct)
    scores = dataclasses.replace(
        found.evaluation.bare, upright=1.0, by_element=tuple(correct.double().mean(1).tolist())
    )
    diagnosis = diagnose_answers(
        dataclasses.replace(found.evaluation, bare=scores), dataclasses.replace(found.answers, bare=bare)
    )
    drop = diagnosis.losses["turned"].drop
    assert drop.value == pytest.approx(0.375)
    expected = 1.96 * 0.375 / 40**0.5  # each image loses 0 or ¾, with equal probability
    assert (drop.high - drop.low) / 2 == pytest.approx(expected, rel=0.15)
    assert f"loses 38 ± {100 * (drop.high - drop.low) / 2:.0f} points" in diagnosis.verdict
    assert any("narrower interval" in step for step in diagnosis.next_steps)


def test_angle_and_scale_are_told_apart():
    diagnosis, _ = diagnosed(bare_model(), rotoscale_group(4, scales=3))
    assert set(diagnosis.losses) == {"turned", "scaled"}
    assert [point.at for point in diagnosis.by_scale] == pytest.approx([0.75, 0.875, 1.0])
    assert len(diagnosis.by_angle) == 4
    assert diagnosis.losses["scaled"].drop.value == 0.0 and not diagnosis.losses["scaled"].notable
    assert "loses 0.0 ± 8.8 points when scaled; agrees" in diagnosis.verdict
    assert diagnosis.command is not None and "--primitives rotation " in diagnosis.command


def test_a_robust_classifier_is_left_alone():
    diagnosis, _ = diagnosed(bare_model(), scale_group(3), table_of(80))
    assert not any(loss.notable for loss in diagnosis.losses.values())
    assert diagnosis.next_steps == (
        "it needs no rectifier for these movements; other groups can be tried: rotation, rotoscale, reflection",
    )
    assert diagnosis.command is None


def test_a_handful_of_images_shows_no_classifier_robust():
    diagnosis, _ = diagnosed(bare_model(), scale_group(3), table_of(8))
    assert diagnosis.losses["scaled"].drop.high > 0.3 and not diagnosis.losses["scaled"].notable
    assert diagnosis.next_steps[0] == "8 images are too few to call it robust: some points may be lost unseen"
    assert diagnosis.command is None


@pytest.mark.parametrize(("images", "said"), [(40, False), (100, True)])
def test_an_accuracy_that_only_training_images_have_raises_a_question(images, said):
    diagnosis, found = diagnosed(bare_model(), rotation_group(4), table_of(images))
    assert found.evaluation.bare.upright == 1.0
    assert any("images that it was trained with" in step for step in diagnosis.next_steps) is said


def test_without_labels_there_are_consistency_and_confidence():
    diagnosis, _ = diagnosed(bare_model(), rotation_group(4), labels=False)
    assert diagnosis.losses["turned"].drop is None and diagnosis.losses["turned"].notable
    assert diagnosis.verdict.startswith("agrees with itself on 0% of turned copies, least at 90°; its confidence goes")
    assert all(point.accuracy is None for point in diagnosis.by_angle)
    assert any("give labels" in step for step in diagnosis.next_steps)
    assert diagnosis.command is not None and diagnosis.command.startswith("tokenstn train")


def test_a_classifier_that_does_better_on_turned_images_raises_a_question():
    class Sideways(Reader):
        def forward(self, images):
            return super().forward(images.rot90(1, (-2, -1)))

    model = bare_model()
    model.backbone.classifier = Sideways()
    diagnosis, _ = diagnosed(model, rotation_group(2 * 2))
    assert "gains 33 ±" in diagnosis.verdict
    assert any("look whether they stand upright" in step for step in diagnosis.next_steps)


def test_a_rectified_model_says_what_its_rectifier_does():
    diagnosis, _ = diagnosed(HonestSTN(), rotation_group(4))
    assert "with its rectifier it reaches 100.0% over the group, without it 25.0%" in diagnosis.next_steps[0]


def test_a_classifier_that_always_says_the_same_is_not_called_robust():
    found = evaluate(bare_model(), table_of(40), group=rotation_group(4), model_name="my-model", **FAST)
    same = dataclasses.replace(found.answers.bare, predicted=torch.zeros_like(found.answers.bare.predicted))
    answers = dataclasses.replace(found.answers, bare=same)
    steady = dataclasses.replace(
        found.evaluation.bare,
        upright=None,
        mean=None,
        by_element=None,
        consistency=1.0,
        consistency_by_element=(1.0,) * 4,
    )
    evaluation = dataclasses.replace(found.evaluation, bare=steady, warnings=(SAME_ANSWER,))
    assert SAME_ANSWER in warnings_of(evaluation, answers)
    assert SAME_ANSWER not in warnings_of(evaluation, found.answers)
    assert SAME_ANSWER not in warnings_of(found.evaluation, answers), "all of them may be of one class, and right"
    diagnosis = diagnose_answers(evaluation, answers)
    said = " ".join(diagnosis.next_steps)
    assert "needs no rectifier" not in said and "mind the warning" in said
    assert "least at" not in diagnosis.verdict and "Mind the warning" in advice(evaluation).sentence


def test_other_groups_move():
    diagnosis, _ = diagnosed(bare_model(), translation_group(3))
    assert set(diagnosis.losses) == {"moved"} and "points when moved; agrees with itself" in diagnosis.verdict


def test_one_element_moves_nothing():
    diagnosis, _ = diagnosed(bare_model(), rotation_group(1))
    assert diagnosis.losses == {} and "nothing was moved" in diagnosis.verdict


def test_what_a_diagnosis_does_not_read_need_not_be_run():
    group = rotoscale_group(4, scales=3)
    whole, _ = diagnosed(bare_model(), group)
    part, found = diagnosed(bare_model(), needed_for_diagnosis(group))
    assert len(found.evaluation.elements) == 6
    assert (part.verdict, part.by_angle, part.by_scale) == (whole.verdict, whole.by_angle, whole.by_scale)
    shifts = translation_group(3)
    assert len(needed_for_diagnosis(shifts)) == len(shifts)


def test_another_remedy_takes_the_place_of_training():
    _, found = diagnosed(bare_model(), rotation_group(4))
    remedy = Remedy("it has a rectifier", "tokenstn evaluate")
    diagnosis = diagnose_answers(found.evaluation, found.answers, remedy=remedy)
    assert diagnosis.next_steps[-1] == "it has a rectifier" and diagnosis.command == "tokenstn evaluate"


def test_a_classifier_that_is_bad_as_it_is_needs_no_rectifier_but_training():
    _, found = diagnosed(bare_model(), rotation_group(4))
    correct = torch.zeros(4, 40, dtype=torch.bool)
    correct[:, :16] = True
    bare = dataclasses.replace(found.answers.bare, correct=correct, predicted=torch.zeros(4, 40, dtype=torch.int64))
    scores = dataclasses.replace(found.evaluation.bare, upright=0.4, by_element=(0.4,) * 4)
    steps = diagnose_answers(
        dataclasses.replace(found.evaluation, bare=scores), dataclasses.replace(found.answers, bare=bare)
    ).next_steps
    assert any("low already as it comes" in step for step in steps)
    assert not any("needs no rectifier" in step for step in steps)
