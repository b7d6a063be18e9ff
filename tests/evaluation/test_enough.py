"""When one view is enough, found by the scores of answers."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tokenstn.data import open_images
from tokenstn.evaluation.enough import GIVEN_UP, fit_enough, least_odds
from tokenstn.evaluation.evaluate import evaluate
from tokenstn.geometry import Rotation, rotation_group
from tokenstn.models import AutoViews
from tokenstn.posteriors import Circular, Posterior
from tokenstn.posteriors.circular import bin_angles

from .toys import HonestSTN, signposts, table_of

ANSWERS = st.lists(st.tuples(st.sampled_from([1.0, 2.0, 5.0, 9.0, 1e6]), st.floats(-2, 2)), min_size=1, max_size=40)


@given(ANSWERS, st.sampled_from([0.0, 0.05, 0.3]))
def test_stopping_gives_up_no_more_than_allowed_and_stops_as_often_as_that_allows(answers, given_up) -> None:
    odds, worse = torch.tensor(answers, dtype=torch.float64).unbind(1)

    def loss(sure: float) -> float:
        return torch.where(odds >= sure, worse, 0.0).mean().item()

    places = [*sorted(set(odds.tolist())), math.nan]  # at every odds that there are, or nowhere
    best = min(loss(place) for place in places)
    enough = [place for place in places if loss(place) <= best + given_up]
    assert (least_odds(odds, worse, given_up) or math.nan) == pytest.approx(enough[0], nan_ok=True)


def test_where_further_views_make_no_answer_better_one_is_always_enough() -> None:
    odds = torch.tensor([1.5, 3.0])
    assert least_odds(odds, torch.zeros(2)) == least_odds(odds, torch.full((2,), -0.1)) == 1.5


def test_where_they_make_the_surest_answer_better_too_one_is_never_enough() -> None:
    assert least_odds(torch.tensor([50.0, 3.0]), torch.tensor([0.5, 0.5])) is None


class Doubter(HonestSTN):
    """Lost where the spot is dim: two peaks on both sides of the right angle, and a higher one a quarter turn away."""

    heat = 1.0  # by how much its classifier is surer of itself than the signposts say

    def localize(self, images: Tensor) -> dict[str, Posterior]:
        peaks = {0.0: (-9.0, 0.0), -0.35: (-0.2, -9.0), 0.35: (-0.2, -9.0), math.pi / 2: (0.0, -9.0)}  # dim, bright
        dim = images[:, 0].amax((1, 2)) * 0.25 + 0.5 < 0.7
        angle = self.angle(images)
        logits = [
            self.sharpness * torch.cos(bin_angles().float() - angle[:, None] - away)
            + torch.where(dim, low, high)[:, None]
            for away, (low, high) in peaks.items()
        ]
        return {"rotation": Circular(Rotation(), torch.stack(logits).logsumexp(0))}

    def _probabilities(self, images: Tensor) -> Tensor:
        return (self.heat * self.backbone.logits(images)).softmax(-1)


def test_a_classifier_that_is_too_sure_of_itself_needs_higher_odds() -> None:
    table, rows = table_of(40), torch.arange(40)
    found = {}
    for heat in (0.3, 1.0):
        model = Doubter()
        model.heat = heat
        found[heat] = fit_enough(model, table, rows, rotation_group(8))
        assert found[heat] is not None
    needed = {heat: enough.auto.sure or math.inf for heat, enough in found.items()}
    assert needed[1.0] > needed[0.3] > 1.0
    assert all(0 < enough.stopped < enough.looked for enough in found.values())


def test_the_score_is_that_of_the_model_that_stops_there() -> None:
    table, rows, group = table_of(40), torch.arange(40), rotation_group(8)
    model = Doubter()
    enough = fit_enough(model, table, rows, group)
    assert enough is not None and enough.looked == 40 * 8 and enough.brier <= enough.at_length + GIVEN_UP
    for auto, score in ((enough.auto, enough.brier), (AutoViews(sure=None), enough.at_length)):
        model.auto = auto
        answers = evaluate(model, table, group=group, draws=1).answers
        torch.testing.assert_close(answers.rectified.brier.mean().item(), score, atol=1e-5, rtol=1e-4)


def test_images_without_a_label_are_left_out_and_the_model_is_left_as_it_was() -> None:
    labels = torch.tensor([[1.0, 0, 0, 0]] * 22 + [[-1.0] * 4] * 8)
    table = table_of(30, items=signposts(labels.clamp_min(0)), labels=labels, multi_label=True)
    model = HonestSTN(multi_label=True)
    before = model.auto
    enough = fit_enough(model, table, torch.arange(30), rotation_group(4))
    assert enough is not None and model.auto == before and enough.looked == 22 * 4
    assert enough.auto == AutoViews(sure=enough.auto.sure)


class Speechless(HonestSTN):
    """Gives no number where a photo is dim."""

    def _probabilities(self, images: Tensor) -> Tensor:
        dim = images[:, 0].amax((1, 2)) * 0.25 + 0.5 < 0.5
        return torch.where(dim[:, None], torch.nan, super()._probabilities(images))


def test_answers_that_are_no_numbers_are_not_looked_at() -> None:
    enough = fit_enough(Speechless(), table_of(60), torch.arange(60), rotation_group(8))
    assert enough is not None and 20 * 8 < enough.looked < 60 * 8
    assert math.isfinite(enough.brier) and math.isfinite(enough.at_length)


def test_where_one_view_is_all_there_is_nothing_is_found() -> None:
    model = HonestSTN(auto=AutoViews(most=1))
    assert fit_enough(model, table_of(40), torch.arange(40), rotation_group(4)) is None


def test_a_few_images_tell_nothing(tmp_path) -> None:
    table = table_of(24, labels=torch.where(torch.arange(24) < 19, torch.arange(24) % 4, -1))
    assert fit_enough(HonestSTN(), table, torch.arange(24), rotation_group(4)) is None
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n nothing")
    assert fit_enough(HonestSTN(), open_images(tmp_path), torch.arange(1), rotation_group(4)) is None
