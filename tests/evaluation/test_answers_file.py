"""Answers on disk come back as they were, and what is not theirs is noticed."""

import dataclasses

import numpy as np
import pytest
import torch

from tokenstn.evaluation.answers_file import ANSWERS, load_answers, save_answers
from tokenstn.evaluation.evaluate import evaluate
from tokenstn.geometry import rotation_group

from .toys import HonestSTN, bare_model, signposts, table_of

FAST = {"cost": False, "controls": False, "draws": 10, "examples": 0}


@pytest.fixture(scope="module")
def found():
    return evaluate(HonestSTN(), table_of(20, groups=[str(k // 4) for k in range(20)]), group=rotation_group(5), **FAST)


def test_answers_come_back_as_they_were(found, tmp_path):
    path = save_answers(found.answers, tmp_path / "new")
    kept = load_answers(tmp_path / "new")
    assert kept is not None and kept.rectified is not None
    assert torch.equal(kept.bare.correct, found.answers.bare.correct)
    assert torch.equal(kept.rectified.predicted, found.answers.rectified.predicted.long())
    assert torch.equal(kept.bare.right, found.answers.bare.right.double())
    assert torch.equal(kept.clusters, found.answers.clusters) and torch.equal(kept.rows, found.answers.rows)
    assert [file.name for file in path.parent.iterdir()] == [ANSWERS]
    assert kept.belongs_to(found.evaluation)


def test_sets_of_labels_come_back_too(tmp_path):
    labels = torch.tensor([[1.0, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 1]])
    table = table_of(3, items=signposts(labels), labels=labels, multi_label=True)
    found = evaluate(HonestSTN(multi_label=True), table, group=rotation_group(3), **FAST)
    save_answers(found.answers, tmp_path)
    kept = load_answers(tmp_path)
    assert kept is not None and kept.bare.correct.shape == (3, 3, 4) and kept.belongs_to(found.evaluation)
    assert torch.equal(kept.bare.predicted, found.answers.bare.predicted)


def test_answers_of_another_run_are_noticed(found, tmp_path):
    save_answers(found.answers, tmp_path)
    kept = load_answers(tmp_path)
    assert kept is not None
    other = dataclasses.replace(found.evaluation.bare, by_element=(0.123,) * 5)
    assert not kept.belongs_to(dataclasses.replace(found.evaluation, bare=other))
    assert not kept.belongs_to(dataclasses.replace(found.evaluation, images=19))
    assert not kept.belongs_to(evaluate(bare_model(), table_of(20), group=rotation_group(5), **FAST).evaluation)


def test_no_file_is_none_and_a_broken_one_a_sentence(found, tmp_path):
    assert load_answers(tmp_path) is None
    path = save_answers(found.answers, tmp_path)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(ValueError, match=r"cannot be read .*run tokenstn evaluate again"):
        load_answers(tmp_path)
    np.savez(path, format=np.array(1), rows=np.array([{}], dtype=object))  # a pickle inside is not opened
    with pytest.raises(ValueError, match="cannot be read"):
        load_answers(tmp_path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("shape", np.array([10**9, 10**9])), ("shape", np.array([-1, 5])), ("shape", np.array([2.5, 5.0])),
        ("shape", np.array(7)),
        ("rows", np.arange(3)), ("labelled", np.ones(5)), ("bare_correct", np.zeros((2, 2), np.uint8)),
        ("bare_predicted", np.zeros((9, 9), np.uint8)), ("bare_predicted", np.zeros((2, 5), complex)),
    ],
    ids=str,
)  # fmt: skip
def test_answers_that_are_not_as_many_as_they_say_are_refused(key, value, tmp_path):
    arrays = {
        "format": np.array(1), "rows": np.arange(5), "clusters": np.arange(5), "labelled": np.ones(5, bool),
        "shape": np.array([2, 5]), "bare_correct": np.packbits(np.ones((2, 5), bool)),
        "bare_predicted": np.zeros((2, 5), np.uint8),
    }  # fmt: skip
    np.savez(tmp_path / "answers.npz", **arrays)
    assert load_answers(tmp_path).bare.correct.all()
    np.savez(tmp_path / "answers.npz", **{**arrays, key: value})
    with pytest.raises(ValueError, match=r"answers\.npz cannot be read"):
        load_answers(tmp_path)
