"""Answers over an orbit, made one element at a time, are those of the whole orbit held in memory."""

import math
import weakref
from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from tokenstn.data import ImageTable, to_float
from tokenstn.evaluation.answers import judge, label_set_id
from tokenstn.evaluation.classification import discrimination
from tokenstn.evaluation.flips import flips
from tokenstn.evaluation.orbit import answer_orbit
from tokenstn.evaluation.photos import load_photos
from tokenstn.evaluation.pose import pose_failed, pose_scores
from tokenstn.evaluation.scores import flips_of, scores_of
from tokenstn.geometry import (
    Group,
    Orbit,
    Pose,
    Rotation,
    hide_corners,
    rotation_group,
    rotoscale_group,
    shear_rotoscale_group,
    wrap_angle,
)

from .toys import CLASSES, PREPROCESSING, HonestSTN, bare_model, signposts, table_of


def run(model, table, group, batch_size=5, **options):
    rows = torch.arange(len(table))
    return answer_orbit(model, load_photos(table, rows, PREPROCESSING, batch_size), group, **options)


@pytest.mark.parametrize("group", [rotation_group(5), rotoscale_group(4, scales=2), shear_rotoscale_group(3, scales=1)])
@torch.no_grad()
def test_a_lazy_orbit_equals_the_materialised_one(group):
    table, model = table_of(12), HonestSTN()
    answers = run(model, table, group, views=3)
    fitted = to_float(table.items, PREPROCESSING.mean, PREPROCESSING.std)
    whole = torch.stack([images for _, images in Orbit(fitted, group)])  # (E, N, C, H, W)
    seen = model(whole.flatten(0, 1), views=3)
    bare = model.classifier(whole.flatten(0, 1)).softmax(-1)
    shape = (len(group), 12)
    assert answers.rectified is not None and answers.poses is not None
    for responses, probabilities in ((answers.bare, bare), (answers.rectified, seen.probabilities)):
        assert torch.equal(responses.predicted.long(), probabilities.argmax(-1).reshape(shape))
        torch.testing.assert_close(responses.confidence, probabilities.amax(-1).reshape(shape), atol=1e-4, rtol=0)
        nll = F.nll_loss(probabilities.log(), table.labels.repeat(len(group)), reduction="none").reshape(shape)
        torch.testing.assert_close(responses.nll, nll, atol=1e-3, rtol=1e-3)
        torch.testing.assert_close(responses.upright, probabilities[:12], atol=1e-4, rtol=0)
        exact = discrimination(probabilities, table.labels.repeat(len(group)))
        assert responses.discrimination is not None
        streamed = responses.discrimination.compute()
        assert streamed.f1 == pytest.approx(exact.f1) and streamed.auc == pytest.approx(exact.auc, abs=2e-3)
    torch.testing.assert_close(answers.poses.value["rotation"], seen.pose.rotation.reshape(shape), atol=1e-3, rtol=0)
    torch.testing.assert_close(
        answers.poses.entropy["rotation"], seen.entropy["rotation"].reshape(shape), atol=1e-4, rtol=0
    )
    assert (answers.poses.views == 3).all()


def test_the_batch_size_changes_nothing():
    table, model, group = table_of(11), HonestSTN(), shear_rotoscale_group(3, scales=2)
    few, many = (run(model, table, group, size, seed=5) for size in (2, 11))
    torch.testing.assert_close(few.rectified.confidence, many.rectified.confidence, atol=1e-5, rtol=0)
    assert torch.equal(few.first_shear, many.first_shear) and (few.first_shear.abs() > 0).all()
    assert torch.equal(few.rows, torch.arange(11)) and torch.equal(few.labels, table.labels)


def test_counts_against_brute_force():
    """Turned by a quarter, a spot above becomes one on the right: the bare reader is then always wrong."""
    answers = run(HonestSTN(), table_of(16), rotation_group(4))
    scores = scores_of(answers, answers.bare, 4)
    assert scores.by_element == (1.0, 0.0, 0.0, 0.0) and scores.mean == 0.25 and scores.worst == 0.0
    assert scores.consistency == 0.0 and scores.consistency_by_element == (1.0, 0.0, 0.0, 0.0)
    rectified = scores_of(answers, answers.rectified, 4)
    assert rectified.by_element == (1.0,) * 4 and rectified.consistency == 1.0 and rectified.by_class == (1.0,) * 4
    found = flips_of(answers, 4)
    assert (found.overall.fixed, found.overall.base_wrong, found.overall.broken) == (48, 48, 0)
    fixed = sum(
        int(after and not before)
        for before, after in zip(answers.bare.correct.flatten(), answers.rectified.correct.flatten(), strict=True)
    )
    assert fixed == found.overall.fixed
    assert found == flips(answers.bare.correct, answers.rectified.correct, answers.labels, 4)


def test_a_known_pose_is_scored_as_known():
    answers = run(HonestSTN(), table_of(8), rotation_group(8))
    scores = pose_scores(answers, (Rotation(),))["rotation"]
    assert scores.error < 2 and scores.equivariance_error < 2 and scores.unit == "°"
    assert scores.failures == 0 and scores.equivariance_failures == 0 and not scores.collapsed
    assert scores.spread_of_poses == pytest.approx(math.degrees(math.pi / math.sqrt(3)), rel=0.01)
    relative = pose_scores(answers, (Rotation(),), "relative")["rotation"]
    assert relative.error is None and relative.failures is None and relative.equivariance_error < 2
    assert not pose_failed(answers, (Rotation(),)).any()


class HalfTurned(HonestSTN):
    """Right about changes of the angle, and 100° off in itself."""

    def angle(self, images):
        return wrap_angle(super().angle(images) + math.radians(100))


class Stubborn(HonestSTN):
    """Follows the input up to 90° and no further."""

    def angle(self, images):
        return super().angle(images).clamp(-math.pi / 2, math.pi / 2)


def test_equivariance_is_judged_against_the_image_as_it_comes():
    scores = pose_scores(run(HalfTurned(), table_of(4), rotation_group(8)), (Rotation(),))["rotation"]
    assert scores.error == pytest.approx(100, abs=2) and scores.failures == 1
    assert scores.equivariance_error < 2 and scores.equivariance_failures == 0


def test_a_pose_that_does_not_follow_is_a_failure_at_just_those_elements():
    answers = run(Stubborn(), table_of(4), rotation_group(8))
    failed = pose_failed(answers, (Rotation(),))
    assert failed.shape == (8, 4)
    assert failed.all(1).tolist() == [False, False, False, True, True, True, False, False]  # 135°, 180°, 225°
    scores = pose_scores(answers, (Rotation(),))["rotation"]
    assert scores.equivariance_failures == pytest.approx(3 / 7)
    expected = torch.tensor([0, 0, 45, 90, 45, 0, 0]).median()  # of the seven turned copies
    assert scores.equivariance_error == pytest.approx(expected.item(), abs=2)


def test_a_bare_classifier_has_no_rectified_part():
    answers = run(bare_model(), table_of(8), rotation_group(4))
    assert answers.rectified is None and answers.poses is None and answers.best is answers.bare
    assert pose_scores(answers, ()) == {} and pose_failed(answers, ()) is None and flips_of(answers, 4) is None


def test_unlabelled_images_are_answered_and_not_judged():
    labels = torch.tensor([0, -1, 2, -1])
    mixed = table_of(4, labels=labels)
    answers = run(HonestSTN(), mixed, rotation_group(4))
    assert answers.labelled.tolist() == [True, False, True, False]
    scores = scores_of(answers, answers.rectified, 4)
    assert scores.upright == 1.0 and scores.consistency == 1.0
    assert scores.by_class[0] == 1.0 and math.isnan(scores.by_class[1])
    nothing = run(HonestSTN(), table_of(4, labels=torch.full((4,), -1)), rotation_group(4))
    scores = scores_of(nothing, nothing.bare, 4)
    assert scores.upright is None and scores.mean_ci is None and scores.calibration is None
    assert scores.consistency == 0.0 and len(scores.confidence_by_element) == 4


def test_several_labels_are_right_one_by_one():
    labels = torch.tensor([[1.0, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1], [-1, -1, -1, -1]])
    table = ImageTable("sets", signposts(labels.clamp_min(0)), labels, CLASSES, multi_label=True)
    answers = run(HonestSTN(multi_label=True), table, rotation_group(4))
    assert answers.bare.correct.shape == (4, 5, 4)
    # turned by a quarter, the set {above} looks like {right}: two of its four labels are wrong
    assert answers.bare.right[1, :4].tolist() == [0.5, 0.5, 0.5, 1.0]
    scores = scores_of(answers, answers.rectified, 4)
    assert scores.upright == 1.0 and scores.mean == 1.0 and scores.by_class == (1.0,) * 4
    found = flips_of(answers, 4)
    assert found.overall.broken == 0 and found.overall.fixed == found.overall.base_wrong > 0
    assert answers.bare.predicted[0].unique().numel() == 5  # five sets: the unlabelled one shows no spot


@pytest.mark.parametrize("count", [5, 80])
def test_a_set_of_labels_has_a_number_of_its_own(count):
    sets = torch.rand(200, count, generator=torch.Generator().manual_seed(0)) > 0.5
    distinct = len({tuple(row) for row in sets.tolist()})
    assert label_set_id(sets).unique().numel() == distinct
    assert torch.equal(label_set_id(sets[[3, 3]]), label_set_id(sets[[3]]).repeat(2))


def test_a_certain_error_costs_much_but_not_infinitely_much():
    judged = judge(torch.tensor([[0.0, 1.0]]), torch.tensor([0]), multi_label=False)
    assert judged["nll"].item() == pytest.approx(-math.log(1e-12)) and judged["brier"].item() == 2.0


def test_groups_of_images_are_clusters():
    answers = run(bare_model(), table_of(4, groups=["a", "b", "a", "c"]), rotation_group(2))
    assert answers.clusters.tolist() == [0, 1, 0, 2]


def test_bad_input_gets_a_sentence(tmp_path):
    three = bare_model(classes=None)
    wrong = table_of(4, labels=torch.tensor([0, 1, 2, 0]), classes=("a", "b", "c"))
    with pytest.raises(ValueError, match="4 outputs and signposts has 3 classes"):
        run(three, wrong, rotation_group(2))
    missing = ImageTable("gone", [tmp_path / "no.png"], torch.tensor([0]), CLASSES)
    with pytest.raises(ValueError, match=r"none of the 1 images of gone could be read; the first is .*no such file"):
        run(bare_model(), missing, rotation_group(2))


def test_a_progress_bar_is_shown_on_request(capsys):
    run(bare_model(), table_of(4), rotation_group(2), progress=True)
    assert "orbit" in capsys.readouterr().out
    run(bare_model(), table_of(4), rotation_group(2))
    assert capsys.readouterr().out == ""


def test_a_shift_is_measured_in_what_the_network_sees():
    from dataclasses import replace

    from tokenstn.evaluation.pose import applied_values
    from tokenstn.geometry import Translation

    group = Group("shift", Pose.of(translation=torch.tensor([[0.0, 0.0], [0.1, 0.0]], dtype=torch.float64)))
    cropped = replace(PREPROCESSING, crop_share=0.8)
    photos = load_photos(table_of(2), torch.arange(2), cropped)
    answers = answer_orbit(bare_model(preprocessing=cropped), photos, group)
    applied = applied_values(answers, Translation(0.5))
    torch.testing.assert_close(applied[1, :, 0], torch.full((2,), 0.1 * 30 / 24, dtype=torch.float64))


def test_inputs_do_not_pile_up_with_the_order():
    seen, alive = [], []

    class Watched(HonestSTN):
        def localize(self, images):
            seen.append(weakref.ref(images))
            alive.append(sum(reference() is not None for reference in seen))
            return super().localize(images)

    run(Watched(), table_of(6), rotation_group(12), batch_size=6)
    assert len(alive) == 12 and max(alive) <= 2, "at most the input before it is still there"


@torch.no_grad()
def test_with_a_mask_neither_classifier_nor_localizer_sees_a_corner():
    table, model, group = table_of(8), HonestSTN(), rotation_group(3)
    other = table.items.clone()
    other[:, :, :3, :3] = 255 - other[:, :, :3, :3]  # another upper left corner
    changed = replace(table, items=other)
    plain, masked = (run(model, table, group, views=2, mask=mask) for mask in (False, True))
    again = run(model, changed, rotation_group(1), views=2, mask=True)
    assert torch.equal(again.bare.confidence[0], masked.bare.confidence[0])
    seen = to_float(table.items, PREPROCESSING.mean, PREPROCESSING.std)
    expected = model.classifier(hide_corners(seen)).softmax(-1).amax(-1)
    torch.testing.assert_close(masked.bare.confidence[0], expected)
    assert not torch.equal(plain.bare.confidence, masked.bare.confidence)


@torch.no_grad()
def test_random_views_repeat_with_the_seed():
    table, model, group = table_of(8), HonestSTN(), rotation_group(3)
    first, again, other = (run(model, table, group, views=2, sampling="random", seed=seed) for seed in (1, 1, 2))
    assert first.rectified is not None and again.rectified is not None and other.rectified is not None
    assert torch.equal(first.rectified.confidence, again.rectified.confidence)
    assert not torch.equal(first.rectified.confidence, other.rectified.confidence)
