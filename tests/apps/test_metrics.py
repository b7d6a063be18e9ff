"""What the server counts, what it compares it with, and when it says that something has changed."""

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

pytest.importorskip("prometheus_client", reason="prometheus_client is not installed")

import tokenstn
from tokenstn import Preprocessing, TokenSTN
from tokenstn.apps.embedded import embedded_model
from tokenstn.apps.metrics import ENOUGH, WINDOW, Metrics
from tokenstn.apps.reference import FILE, Reference, bin_of, edges_of, instability, measure, quantities, summarise
from tokenstn.data import read_mnist_mini
from tokenstn.data.table import ImageTable

from ..models.classifiers import PlainCNN, shake

counts = st.lists(st.integers(0, 1000), min_size=2, max_size=12).filter(lambda given: sum(given) > 0)


def answer(rotation=0.0, label="a", ambiguous=False):
    return {
        "prediction": label, "probability": 0.8, "rotation_deg": rotation, "views": 2, "entropy": {"rotation": 0.3},
        "pose_ambiguous": ambiguous, "class_uncertain": None, "estimated": ["rotation"], "photo_px": [40, 20],
    }  # fmt: skip


@given(counts)
def test_a_distribution_does_not_differ_from_itself(given):
    assert instability(given, [count / sum(given) for count in given]) == pytest.approx(0, abs=1e-9)


@given(counts, st.integers(0, 2**31))
def test_any_other_distribution_is_further_away(given, turn):
    other = given[turn % len(given) :] + given[: turn % len(given)]
    found = instability(given, [count / sum(other) for count in other])
    assert found >= -1e-12 and (found > 0 or given == other)


@given(st.floats(-180, 180))
def test_every_value_has_a_bin_between_its_edges(value):
    edges = (float("-inf"), *edges_of("rotation_deg"), float("inf"))
    place = bin_of("rotation_deg", value)
    assert edges[place] < value <= edges[place + 1]


def test_only_what_is_estimated_and_known_is_counted():
    assert quantities(answer()) == {
        "probability": 0.8, "views": 2, "rotation_deg": 0, "entropy_rotation": 0.3, "pose_ambiguous": 0,
    }  # fmt: skip
    moved = {**answer(), "estimated": ["translation"], "translation_px": [3, 4], "entropy": {}}
    assert quantities(moved)["translation"] == pytest.approx(0.5)  # 5 of 10 pixels


def test_a_reference_is_kept_beside_the_model(tmp_path):
    reference = summarise([answer(turn) for turn in (-5, 5, 5, 100)], "photos, val")
    assert reference.images == 4 and reference.classes == {"a": 1.0}
    assert sum(reference.shares["rotation_deg"]) == pytest.approx(1)
    assert reference.shares["rotation_deg"][bin_of("rotation_deg", 5)] == 0.5
    assert Reference.read(tmp_path) is None
    reference.write(tmp_path)
    assert Reference.read(tmp_path) == reference


@pytest.mark.parametrize("broken", ["{", "[]", '{"format": 9}', '{"format": 1}'])
def test_a_broken_reference_is_refused(tmp_path, broken):
    (tmp_path / FILE).write_text(broken)
    with pytest.raises(ValueError, match="remove it, or measure it again"):
        Reference.read(tmp_path)


def test_bins_of_another_version_are_refused(tmp_path):
    path = summarise([answer()], "photos").write(tmp_path)
    document = json.loads(path.read_text())
    document["edges"]["rotation_deg"][0] = -170
    path.write_text(json.dumps(document))
    with pytest.raises(ValueError, match="not those of this version"):
        Reference.read(tmp_path)


def test_the_embedded_reference_is_what_the_model_answers():
    digits = read_mnist_mini()
    some = digits.split("val")[:100]
    table = ImageTable("digits", digits.items[some], digits.labels[some], digits.classes, channels=1)
    found = measure(tokenstn.load(embedded_model()), table, None)
    kept = Reference.read(embedded_model())
    assert found.images == 100 and kept is not None and kept.images == 1000
    for name, shares in kept.shares.items():
        assert instability([100 * share for share in found.shares[name]], shares) < 0.25


def test_a_reference_is_of_the_boxes_and_not_of_their_photos(tmp_path):
    """A server is sent what was cut out."""
    digits = read_mnist_mini()
    some = digits.split("val")[:30]
    seen, labels = digits.items[some].expand(-1, 3, -1, -1), digits.labels[some]
    photos = torch.zeros(30, 3, 90, 60, dtype=torch.uint8)
    photos[:, :, 50:78, 10:38] = seen
    boxes = torch.tensor([10, 50, 38, 78]).expand(30, 4)
    alone = ImageTable("alone", seen.contiguous(), labels, digits.classes)
    cut = ImageTable("cut", photos, labels, digits.classes, boxes=boxes)
    how = Preprocessing((28, 28), (0.5,) * 3, (0.5,) * 3, resize="pad")
    torch.manual_seed(0)
    model = TokenSTN(
        shake(PlainCNN(classes=10)), ("translation",), shared="body", preprocessing=how, input_size=(28, 28)
    )
    shake(model.eval().localizer, 1.0)
    assert measure(model, cut, None).shares == measure(model, alone, None).shares


def values(metrics):
    families = text_string_to_metric_families(metrics.page().decode())
    return {(one.name, *sorted(one.labels.items())): one.value for family in families for one in family.samples}


def test_turned_photos_show_as_drift_and_others_do_not():
    reference = summarise([answer(turn) for turn in range(-10, 10)], "photos")
    metrics = Metrics(("a", "b"), ("rotation",), reference)
    for k in range(ENOUGH - 1):
        metrics.answered(answer(k % 20 - 10))
    assert not any(name[0] == "tokenstn_drift" for name in values(metrics))  # too few to say anything
    metrics.answered(answer(0))
    assert values(metrics)["tokenstn_drift", ("quantity", "rotation_deg")] < 0.1
    for k in range(WINDOW):
        metrics.answered(answer(k % 360 - 180, "b", ambiguous=k % 2 == 0))
    found = values(metrics)
    for quantity in ("rotation_deg", "prediction", "pose_ambiguous"):
        assert found["tokenstn_drift", ("quantity", quantity)] > 0.25
    assert found["tokenstn_drift", ("quantity", "probability")] < 0.01
    assert found["tokenstn_predictions_total", ("class", "b")] == WINDOW
    assert found["tokenstn_flags_total", ("flag", "pose_ambiguous"), ("raised", "yes")] == WINDOW / 2
    assert found["tokenstn_rotation_deg_count",] == WINDOW + ENOUGH
    assert found["tokenstn_reference_images",] == 20


def test_without_a_reference_everything_else_is_counted():
    metrics = Metrics(("a",), ("rotation",), None)
    metrics.answered(answer(30))
    found = values(metrics)
    assert found["tokenstn_rotation_deg_bucket", ("le", "30.0")] == 1
    assert found["tokenstn_rotation_deg_bucket", ("le", "0.0")] == 0
    assert not any(name[0].startswith(("tokenstn_drift", "tokenstn_reference", "tokenstn_scale")) for name in found)


@pytest.mark.parametrize(
    "change",
    [
        {"images": "many"},
        {"source": None},
        {"shares": []},
        {"shares": {"views": [None] * 7}},
        {"shares": {"views": [2.0] * 7}},
        {"classes": ["a"]},
        {"classes": {"a": None}},
        {"classes": {"a": float("nan")}},
    ],
    ids=str,
)
def test_a_reference_that_was_edited_is_refused_when_it_is_read(change, tmp_path):
    """And not when the first client asks for /metrics."""
    path = Reference(3, "digits, val", {"views": [1 / 7] * 7}, {"a": 1.0}).write(tmp_path)
    assert Reference.read(tmp_path) is not None
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, **change, "edges": {"views": document["edges"]["views"]}}))
    with pytest.raises(ValueError, match=r"reference\.json cannot be used"):
        Reference.read(tmp_path)
