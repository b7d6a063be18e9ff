"""The gallery shows the most telling images, each once, and shows them as they were."""

import math

import numpy as np
import torch

from tokenstn.evaluation.gallery import pick_examples, render_examples
from tokenstn.evaluation.orbit import answer_orbit
from tokenstn.evaluation.photos import load_photos
from tokenstn.geometry import rotation_group, wrap_angle

from .toys import CLASSES, PREPROCESSING, HonestSTN, bare_model, table_of


class SometimesWrong(HonestSTN):
    """Turns photos with a bright spot the wrong way."""

    def angle(self, images):
        angle, bright = super().angle(images), images[:, 0].amax((1, 2)) > 0.9
        return torch.where(bright, wrap_angle(angle + math.pi / 2), angle)


def examine(model, count=3, **changes):
    table = table_of(20, **changes)
    answers = answer_orbit(model, load_photos(table, torch.arange(20), PREPROCESSING), rotation_group(4), views=1)
    return table, answers, pick_examples(answers, count)


def test_examples_are_what_their_kind_says_and_no_image_is_shown_twice():
    _, answers, picks = examine(SometimesWrong())
    assert [pick.kind for pick in picks] == ["fixed"] * 3 + ["broken"] * 3 + ["ambiguous"] * 3
    assert len({pick.place for pick in picks}) == 9
    before, after = answers.bare.correct, answers.rectified.correct
    for pick in picks[:3]:
        assert not before[pick.element, pick.place] and after[pick.element, pick.place]
    for pick in picks[3:6]:
        assert before[pick.element, pick.place] and not after[pick.element, pick.place]


def test_the_first_fixed_one_gained_most():
    _, answers, picks = examine(HonestSTN())
    gain = torch.exp(-answers.rectified.nll) - torch.exp(-answers.bare.nll)
    gain[answers.bare.correct | ~answers.rectified.correct] = -1
    assert gain[picks[0].element, picks[0].place] == gain.max()
    assert {pick.kind for pick in picks} == {"fixed", "ambiguous"}, "it breaks nothing"


def test_examples_are_rendered_as_they_were_answered():
    model = HonestSTN()
    table, answers, picks = examine(model)
    examples = render_examples(model, table, answers, picks, CLASSES, views=1)
    again = render_examples(model, table, answers, picks, CLASSES, views=1)
    for pick, example, same in zip(picks, examples, again, strict=True):
        where = pick.element, pick.place
        assert example.kind == pick.kind and example.label == CLASSES[answers.labels[pick.place]]
        assert example.answer == CLASSES[answers.rectified.predicted[where]]
        assert abs(example.confidence - answers.rectified.confidence[where].item()) < 1e-4
        assert example.image.shape == (24, 24, 3) and example.image.dtype == np.uint8
        assert abs(wrap_angle(torch.tensor(example.rotation_deg - 90 * pick.element).deg2rad())) < 0.05
        assert example.scale is None and example.spread_deg > 0 and "rotation" in example.entropy
        upright = table.items[answers.rows[pick.place]].movedim(0, -1).numpy().astype(int)
        difference = np.abs(example.rectified.astype(int) - upright)[4:20, 4:20]
        assert difference.mean() < 8, "the rectified view is the photo as it came"
        assert np.array_equal(example.image, same.image)


def test_without_labels_the_ambiguous_are_left():
    _, _, picks = examine(HonestSTN(), labels=torch.full((20,), -1))
    assert [pick.kind for pick in picks] == ["ambiguous"] * 3


def test_a_bare_classifier_has_no_gallery():
    assert examine(bare_model())[2] == []
