"""A whole evaluation: everything is there, it survives JSON, and what cannot be evaluated gets a sentence."""

import dataclasses
import json
import math

import pytest
import torch
from torchvision.io import write_png

from tokenstn import TokenSTN
from tokenstn.data import ImageTable
from tokenstn.evaluation import estimate as estimate_module
from tokenstn.evaluation.estimate import estimate_seconds
from tokenstn.evaluation.evaluate import evaluate
from tokenstn.evaluation.metrics_json import from_json, json_schema, to_json
from tokenstn.evaluation.orbit import answer_orbit
from tokenstn.evaluation.photos import load_photos
from tokenstn.geometry import Group, Pose, rotation_group, rotoscale_group

from .toys import CLASSES, PREPROCESSING, CheatingSTN, Clock, HonestSTN, Timed, bare_model, signposts, table_of

FAST = {"cost": False, "draws": 20, "batch_size": 16}


@pytest.fixture(scope="module")
def found():
    return evaluate(
        HonestSTN(), table_of(24), group=rotation_group(8), draws=20, model_name="toy", command="evaluate toy"
    )


def test_an_evaluation_has_all_its_parts(found):
    evaluation = found.evaluation
    assert evaluation.images == 24 and evaluation.classes == CLASSES and evaluation.group == "rotation"
    assert [element.rotation_deg for element in evaluation.elements] == [45.0 * k for k in range(8)]
    assert evaluation.rectified.mean == 1.0 and evaluation.bare.mean < 0.5
    assert 0.8 < evaluation.rectified.mean_ci.low < 1.0, "no image fails, and yet they are few"
    assert evaluation.bare.mean_ci.low < evaluation.bare.mean
    assert evaluation.flips.overall.fixed == evaluation.flips.overall.base_wrong
    assert set(evaluation.pose) == set(evaluation.entropy) == {"rotation"} and len(evaluation.entropy["rotation"]) == 4
    assert set(evaluation.uncertainty) == {
        "confidence", "predictive_entropy", "disagreement", "entropy_rotation", "combined",
        "bare_confidence", "bare_confidence_for_rectified",
    }  # fmt: skip
    assert evaluation.uncertainty["bare_confidence"].class_auroc is not None
    assert evaluation.uncertainty["confidence"].class_auroc is None, "the rectified answers have no errors"
    assert len(evaluation.controls) == 5 and not evaluation.warnings
    assert evaluation.cost.auto_views >= 1 and len(evaluation.cost.flops) == 5
    assert evaluation.provenance.command == "evaluate toy" and len(evaluation.provenance.data_sha256) == 64
    assert evaluation.provenance.versions["torch"] == torch.__version__.split("+")[0]
    assert {example.kind for example in found.examples} == {"fixed", "ambiguous"}
    assert found.answers.bare.correct.shape == (8, 24)


def test_an_evaluation_survives_json(found):
    text = json.dumps(to_json(found.evaluation), allow_nan=False)
    assert from_json(json.loads(text)) == found.evaluation


def test_a_number_that_is_not_defined_is_null_in_json(found):
    undefined = dataclasses.replace(found.evaluation.bare, by_class=(0.5, math.nan))
    evaluation = dataclasses.replace(found.evaluation, bare=undefined)
    document = json.loads(json.dumps(to_json(evaluation), allow_nan=False))
    assert document["bare"]["by_class"] == [0.5, None]
    assert math.isnan(from_json(document).bare.by_class[1])


def fits(value, schema, definitions) -> bool:
    """Whether JSON goes with a schema, for as much of JSON Schema as ours uses."""
    if "$ref" in schema:
        return fits(value, definitions[schema["$ref"].removeprefix("#/$defs/")], definitions)
    if "anyOf" in schema:
        return any(fits(value, option, definitions) for option in schema["anyOf"])
    kinds = {"string": str, "boolean": bool, "number": (int, float), "object": dict, "array": list, "null": type(None)}
    kinds["integer"] = int
    wanted = schema.get("type", list(kinds))
    if not any(isinstance(value, kinds[kind]) for kind in ([wanted] if isinstance(wanted, str) else wanted)):
        return False
    if isinstance(value, dict):
        known, others = schema.get("properties", {}), schema.get("additionalProperties", {})
        return set(schema.get("required", ())) <= set(value) and all(
            fits(item, known[key], definitions)
            if key in known
            else others is not False and fits(item, others, definitions)
            for key, item in value.items()
        )
    if isinstance(value, list):
        parts = schema.get("prefixItems", [schema.get("items", {})] * len(value))
        return len(parts) == len(value) and all(map(fits, value, parts, [definitions] * len(value)))
    return True


def test_the_schema_describes_what_is_written(found):
    schema, document = json_schema(), json.loads(json.dumps(to_json(found.evaluation)))
    assert fits(document, schema, schema["$defs"])
    assert not fits(document | {"images": "many"}, schema, schema["$defs"])
    assert not fits(document | {"colour": 1}, schema, schema["$defs"])
    assert not fits({key: document[key] for key in list(document)[:-1]}, schema, schema["$defs"])


def test_the_schema_names_every_type_and_field(found):
    schema = json_schema()
    assert schema["$ref"] == "#/$defs/Evaluation" and {"Scores", "Control", "PoseScores"} <= set(schema["$defs"])
    document = to_json(found.evaluation)
    assert set(document) == set(schema["$defs"]["Evaluation"]["properties"])
    interval = schema["$defs"]["Scores"]["properties"]["mean_ci"]
    assert interval == {"anyOf": [{"$ref": "#/$defs/Interval"}, {"type": "null"}]}


def test_json_of_another_kind_gets_a_sentence(found):
    with pytest.raises(ValueError, match="not an evaluation: its schema is None"):
        from_json({"outcome": {}})
    document = to_json(found.evaluation)
    with pytest.raises(ValueError, match="evaluation lacks flips"):
        from_json({key: value for key, value in document.items() if key != "flips"})
    with pytest.raises(ValueError, match=r"evaluation\.images is 'many'"):
        from_json(document | {"images": "many"})
    with pytest.raises(ValueError, match="does not know: colour"):
        from_json(document | {"colour": 1})


def test_a_bare_classifier_is_evaluated_alone():
    evaluation, examples, _ = evaluate(bare_model(), table_of(16), group=rotation_group(4), **FAST)
    assert evaluation.rectified is None and evaluation.flips is None and evaluation.pose == evaluation.entropy == {}
    assert evaluation.bare.by_element == (1.0, 0.0, 0.0, 0.0) and examples == []
    assert evaluation.controls[0].name == "exact quarter turns"
    assert set(evaluation.uncertainty) == {"confidence", "predictive_entropy", "combined", "bare_confidence"}
    assert from_json(json.loads(json.dumps(to_json(evaluation)))) == evaluation


def test_labels_can_be_left_out():
    model = HonestSTN(classes=("other", "names", "than", "these"))
    evaluation, examples, _ = evaluate(model, table_of(12), group=rotation_group(4), labels=False, **FAST)
    assert evaluation.bare.upright is None and evaluation.flips is None and evaluation.uncertainty == {}
    assert evaluation.rectified.consistency == 1.0 and evaluation.bare.consistency == 0.0
    assert all("consistency" in control.name for control in evaluation.controls)
    assert {example.kind for example in examples} == {"ambiguous"} and examples[0].label is None
    assert evaluation.pose["rotation"].equivariance_error < 2


def test_several_labels_are_evaluated():
    labels = torch.tensor([[1.0, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 1, 0, 1], [1, 0, 1, 1]] * 3)
    table = ImageTable("sets", signposts(labels), labels, CLASSES, multi_label=True)
    evaluation, examples, _ = evaluate(HonestSTN(multi_label=True), table, None, group=rotation_group(4), **FAST)
    assert evaluation.multi_label and evaluation.rectified.mean == 1.0 and evaluation.bare.mean < 1
    assert evaluation.rectified.discrimination_orbit.auc == pytest.approx(1.0, abs=0.01)
    fixed = next(example for example in examples if example.kind == "fixed")
    assert fixed.label == fixed.answer != fixed.bare
    assert from_json(json.loads(json.dumps(to_json(evaluation)))) == evaluation


def test_what_should_be_known_before_believing_is_said():
    evaluation, _, _ = evaluate(CheatingSTN(), table_of(12), group=rotation_group(8), views=1, **FAST)
    assert any("circular mask" in warning for warning in evaluation.warnings)

    class Stuck(HonestSTN):
        def angle(self, images):
            return torch.full((len(images),), 1.5)

    evaluation, _, _ = evaluate(Stuck(), table_of(12), group=rotation_group(8), views=1, controls=False, **FAST)
    said = " ".join(evaluation.warnings)
    assert "rotation has collapsed" in said and "as they come, rectifying costs" in said and evaluation.controls == ()


def test_unreadable_images_are_left_out_and_mentioned(tmp_path):
    for number, photo in enumerate(table_of(4).items):
        write_png(photo, str(tmp_path / f"{number}.png"))
    (tmp_path / "2.png").write_bytes(b"")
    table = ImageTable("files", [tmp_path / f"{n}.png" for n in range(4)], torch.arange(4), CLASSES)
    evaluation, _, answers = evaluate(HonestSTN(), table, None, group=rotation_group(2), controls=False, **FAST)
    assert evaluation.images == 3 and answers.rows.tolist() == [0, 1, 3]
    assert "1 images could not be read" in evaluation.warnings[0] and "empty" in evaluation.warnings[0]
    assert evaluation.bare.by_class[0] == 0.5 and math.isnan(evaluation.bare.by_class[2])


def test_a_limit_is_kept_and_the_result_repeats():
    options = {"group": rotoscale_group(4, scales=2), "limit": 8, "seed": 2, **FAST}
    first, second = (evaluate(HonestSTN(), table_of(40), **options).evaluation for _ in range(2))
    assert first.images == 8
    same = dataclasses.replace(second, provenance=first.provenance)
    assert same == first and second.provenance.data_sha256 == first.provenance.data_sha256


def test_labels_are_read_in_the_order_of_the_classifiers_classes():
    group, order = rotation_group(2), torch.tensor([2, 0, 3, 1])
    table = table_of(8)
    shuffled = dataclasses.replace(
        table, labels=order.argsort()[table.labels], classes=tuple(CLASSES[place] for place in order.tolist())
    )
    given, other = (
        evaluate(HonestSTN(classes=CLASSES), t, group=group, controls=False, **FAST) for t in (table, shuffled)
    )
    assert other.evaluation.classes == CLASSES and other.evaluation.rectified == given.evaluation.rectified
    assert given.evaluation.rectified.mean == 1.0 and other.evaluation.flips == given.evaluation.flips
    few = [
        evaluate(HonestSTN(classes=names), table, group=group, limit=5, controls=False, **FAST)
        for names in (CLASSES, shuffled.classes)
    ]
    assert torch.equal(few[0].answers.rows, few[1].answers.rows), "every classifier is judged on the same images"
    assert few[0].evaluation.provenance.data_sha256 == few[1].evaluation.provenance.data_sha256


def test_relative_poses_have_no_absolute_error():
    evaluation, _, _ = evaluate(
        HonestSTN(), table_of(8), group=rotation_group(4), poses="relative", controls=False, **FAST
    )
    assert evaluation.pose["rotation"].error is None and evaluation.pose["rotation"].equivariance_error < 2


def test_bad_input_gets_a_sentence():
    table, group = table_of(8), rotation_group(2)
    with pytest.raises(ValueError, match="needs an order of at least 1, got 0"):
        rotation_group(0)
    nothing = Group("nothing", Pose.of(rotation=torch.zeros(0)))
    with pytest.raises(ValueError, match="the group 'nothing' is empty"):
        evaluate(HonestSTN(), table, group=nothing)
    with pytest.raises(ValueError, match="has no split 'val'"):
        evaluate(HonestSTN(), table, "val", group=group)
    with pytest.raises(ValueError, match="knows the classes a, b, c, d, signposts has above, left"):
        evaluate(HonestSTN(classes=tuple("abcd")), table, group=group)
    with pytest.raises(ValueError, match="gives several labels for an image, signposts has one class"):
        evaluate(HonestSTN(multi_label=True), table, group=group)
    with pytest.raises(ValueError, match="does not say how its images are prepared"):
        evaluate(bare_model(preprocessing=None), table, group=group)
    with pytest.raises(ValueError, match="poses='upright': absolute or relative"):
        evaluate(HonestSTN(), table, group=group, poses="upright")


def test_the_time_is_estimated_from_one_batch(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(estimate_module, "time", clock)
    model = TokenSTN(Timed(clock), (), input_size=(24, 24), preprocessing=PREPROCESSING)
    photos = load_photos(table_of(22, labels=torch.full((22,), -1)), torch.arange(22), PREPROCESSING, 6)
    estimated = estimate_seconds(model, photos, rotation_group(6))
    clock.now = 0.0
    answer_orbit(model, photos, rotation_group(6))
    assert estimated == pytest.approx(clock.now) and clock.now == pytest.approx(0.02 * 22 * 6)
