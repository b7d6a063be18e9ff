"""The model card says what a person should know, in a form that a hub can read; and the hub's way of saving is ours."""

import json
from pathlib import Path

import pytest
import torch
import yaml
from huggingface_hub import ModelCard, ModelHubMixin

import tokenstn
from tokenstn.geometry import Rotation, Scale, Translation
from tokenstn.models import card

from .classifiers import PlainCNN
from .flags import some_thresholds
from .model_folders import SETTINGS, assert_same_predictions, images, model_of

SCORES = {"upright": 0.96, "mean": 0.38, "worst": 0.1, "consistency": 0.35}
RUN = {
    "schema": "tokenstn.run/1",
    "evaluation": {
        "data": "photos: of 'moths' #1", "split": "val", "images": 1000, "group": "rotation", "elements": [{}] * 16,
        "bare": SCORES, "rectified": SCORES | {"upright": 0.935, "mean": 0.937}, "warnings": ["few images of class b"],
    },
}  # fmt: skip


def saved(folder: Path, **settings) -> str:
    model_of(**settings).save_pretrained(folder)
    return (folder / "README.md").read_text(encoding="utf-8")


def head_of(text: str) -> dict:
    assert text.startswith("---\n")
    return yaml.safe_load(text.split("---\n")[1])


def test_it_names_classes_ranges_promises_and_what_it_is_not_for(tmp_path):
    primitives = [Rotation(), Scale(0.8), Translation(0.25)]
    text = saved(tmp_path / "moths", primitives=primitives, classes=list("abcde"), thresholds=some_thresholds())
    assert "# moths" in text and "5 classes: `a`, `b`" in text and "not a medical device" in text
    assert "| rotation | -180° to 180°, clockwise |" in text and "| scale | 0.80 to 1.25 times |" in text
    assert "| translation | up to 12 % of the shorter side" in text
    assert all(sentence in text for sentence in some_thresholds().sentences) and "`views='auto'`" in text
    assert "saved without the run that it comes from" in text


def test_its_head_is_yaml_that_a_hub_reads(tmp_path):
    head = head_of(saved(tmp_path, primitives=("rotation",)))
    assert head["library_name"] == "tokenstn" and head["pipeline_tag"] == "image-classification"
    assert "corrects-rotation" in head["tags"] and "model-index" not in head
    assert ModelCard.load(tmp_path / "README.md").data.library_name == "tokenstn"


def test_relative_poses_are_said_to_be_so(tmp_path):
    assert "consistent with each other, not upright" in saved(tmp_path, poses="relative").replace("\n", " ")
    assert "the classifier alone" in saved(tmp_path / "bare", primitives=())


def test_the_metrics_of_the_run_around_it_are_in_it(tmp_path):
    (tmp_path / "metrics.json").write_text(json.dumps(RUN))
    text = saved(tmp_path / "model", primitives=("rotation",))
    assert f"# {tmp_path.name}" in text and "1,000 images, the val images of photos: of 'moths' #1" in text
    assert "| rectified | 93.5% | 93.7% | 10.0% | 35.0% |" in text and "few images of class b" in text
    results = head_of(text)["model-index"][0]["results"]
    values = {metric["name"]: metric["value"] for result in results for metric in result["metrics"]}
    assert values == {"Accuracy as they come": 0.935, "Accuracy over rotation": 0.937}
    again = tokenstn.load(tmp_path / "model")
    again.save_pretrained(tmp_path / "elsewhere" / "copy")  # as an upload would
    assert "93.7%" in (tmp_path / "elsewhere" / "copy" / "README.md").read_text()


@pytest.mark.parametrize("content", ["{", "[]", '{"schema": "tokenstn.run/1"}', '{"schema": "x", "evaluation": {}}'])
def test_a_file_that_is_no_run_is_no_metrics(content, tmp_path):
    (tmp_path / "metrics.json").write_text(content)
    assert "saved without the run" in saved(tmp_path / "model")


def test_a_card_is_written_anew_until_a_person_takes_it_over(tmp_path):
    assert "| rotation |" in saved(tmp_path, primitives=("rotation",))
    text = saved(tmp_path, primitives=("shear",))
    assert "| shear |" in text and "| rotation |" not in text
    mine = "# My own\n"
    (tmp_path / "README.md").write_text(mine)
    assert saved(tmp_path, primitives=("scale",)) == mine
    assert tokenstn.load(tmp_path).primitives[0].name == "scale"


def test_from_pretrained_is_load(tmp_path):
    model = model_of(primitives=("rotation", "shear"), preprocessing=SETTINGS, classes=list("abcde"))
    assert isinstance(model, ModelHubMixin)
    model.save_pretrained(tmp_path)
    for found in (tokenstn.TokenSTN.from_pretrained(tmp_path), tokenstn.TokenSTN.from_pretrained(str(tmp_path))):
        assert_same_predictions(found, model, images())
        assert found.classes == model.classes and not found.training


def test_a_class_of_ones_own_is_given_again(tmp_path):
    model = model_of(PlainCNN(), shared="body", input_size=(32, 32))
    with pytest.warns(UserWarning, match="cannot be rebuilt"):
        model.save_pretrained(tmp_path)
    assert_same_predictions(tokenstn.TokenSTN.from_pretrained(tmp_path, classifier=PlainCNN()), model, images())


def test_an_upload_takes_the_three_files(tmp_path, monkeypatch):
    """Everything but the network: what the mixin hands to the hub's client."""
    from huggingface_hub import HfApi

    uploaded = {}

    def upload(self, *, repo_id, folder_path, **_):
        uploaded.update({path.name: path.read_bytes() for path in Path(folder_path).iterdir()})
        return f"at {repo_id}"

    monkeypatch.setattr(HfApi, "create_repo", lambda self, repo_id, **_: type("Repo", (), {"repo_id": repo_id}))
    monkeypatch.setattr(HfApi, "upload_folder", upload)
    model = model_of(primitives=("rotation",))
    assert model.push_to_hub("me/moths", model_card_kwargs={"name": "Moths", "metrics": RUN}) == "at me/moths"
    assert uploaded.keys() == {"README.md", "config.json", "model.safetensors"}
    assert b"# Moths" in uploaded["README.md"] and b"93.7%" in uploaded["README.md"]
    assert model.save_pretrained(tmp_path / "m", push_to_hub=True, repo_id="me/other") == "at me/other"


def test_what_is_neither_folder_nor_repository_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        tokenstn.TokenSTN.from_pretrained(tmp_path / "nothing")
    with pytest.raises(ValueError, match="leave config out"):
        model_of().save_pretrained(tmp_path, config={"a": 1})
    model_of().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="posterior: a model is what its folder says"):
        tokenstn.TokenSTN.from_pretrained(tmp_path, posterior="point")


def test_a_run_that_kept_the_classifier_alone_has_its_figures(tmp_path):
    (tmp_path / "metrics.json").write_text(json.dumps(RUN))
    text = saved(tmp_path / "model", primitives=())
    assert "| the classifier alone | 96.0% | 38.0% |" in text and "| rectified |" not in text


def test_loading_a_model_again_keeps_its_weights_to_the_bit(tmp_path):
    model = model_of(primitives=("rotation",))
    model.save_pretrained(tmp_path)
    found = tokenstn.TokenSTN.from_pretrained(tmp_path).state_dict()
    assert all(torch.equal(value, found[key]) for key, value in model.state_dict().items())


def test_a_primitive_of_ones_own_has_its_range(monkeypatch):
    monkeypatch.setattr(Scale, "name", "stretch")
    assert card._range(Scale(0.8)) == "0.80 to 1.25"
