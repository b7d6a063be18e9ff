"""An exported file runs as any other model: the same call, the same result, and a sentence for what it cannot do."""

import onnx
import pytest
import torch

import tokenstn
from tokenstn.models import Thresholds
from tokenstn.models.bare import without_rectifier
from tokenstn.models.onnx import OnnxModel

from ..exported import VIEWS, made, some_images

pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def exported() -> OnnxModel:
    model = tokenstn.load(made().file)
    assert isinstance(model, OnnxModel)
    return model


@pytest.fixture(scope="module")
def original() -> tokenstn.TokenSTN:
    return tokenstn.load(made().folder)


@torch.no_grad()
def test_a_call_gives_what_the_original_gives_with_so_many_views(exported, original):
    images = some_images()
    original.thresholds = None
    for batch in (1, 7):
        found, expected = exported(images[:batch]), original(images[:batch], views=VIEWS)
        torch.testing.assert_close(found.probabilities, expected.probabilities, atol=1e-4, rtol=0)
        torch.testing.assert_close(found.pose.matrix, expected.pose.matrix, atol=1e-5, rtol=0)
        torch.testing.assert_close(found.rectified, expected.rectified, atol=1e-3, rtol=0)
        torch.testing.assert_close(found.views.matrices, expected.views.matrices, atol=1e-5, rtol=0)
        torch.testing.assert_close(found.views.weights, expected.views.weights, atol=1e-5, rtol=0)
        torch.testing.assert_close(found.disagreement, expected.disagreement, atol=1e-5, rtol=0)
        for name in ("rotation", "scale"):
            torch.testing.assert_close(found.entropy[name], expected.entropy[name], atol=1e-5, rtol=0)
            torch.testing.assert_close(found.spread[name], expected.spread[name], atol=1e-5, rtol=0)


@torch.no_grad()
def test_its_flags_are_those_of_its_thresholds(exported):
    """In the graph, and worked out again from its other outputs."""
    images = some_images()
    p = exported(images)
    assert p.class_uncertain.sum() == p.pose_ambiguous.sum() == len(images) // 2
    again = exported.classify(images, exported.localize(images), VIEWS)
    assert p.class_uncertain.tolist() == again.class_uncertain.tolist()
    assert p.pose_ambiguous.tolist() == again.pose_ambiguous.tolist()
    limits = exported.thresholds
    assert isinstance(limits, Thresholds) and limits.holds_for(exported.call_settings())
    assert limits.settings.execution == "onnx" and limits.settings.views == VIEWS
    assert exported.classify(images, exported.localize(images), 2).class_uncertain is None
    as_many_as_it_has = exported.classify(images, exported.localize(images), "auto")
    assert as_many_as_it_has.views.weights.shape[1] == VIEWS
    assert as_many_as_it_has.class_uncertain.tolist() == p.class_uncertain.tolist()


@torch.no_grad()
def test_the_classifier_and_the_localizer_inside_can_be_asked_on_their_own(exported, original):
    images = some_images()
    found, expected = exported.classify(images, {}), original.classify(images, {})
    torch.testing.assert_close(found.probabilities, expected.probabilities, atol=1e-4, rtol=0)
    for name, posterior in original.localize(images).items():
        torch.testing.assert_close(exported.localize(images)[name].raw, posterior.raw, atol=1e-4, rtol=1e-4)
    found = without_rectifier(exported)(images)
    torch.testing.assert_close(found.probabilities, expected.probabilities, atol=1e-4, rtol=0)


def test_it_says_about_itself_what_the_original_says(exported, original):
    for name in ("classes", "multi_label", "poses", "primitives", "preprocessing", "posterior", "bare"):
        assert getattr(exported, name) == getattr(original, name), name
    assert exported.info.parameters == sum(parameter.numel() for parameter in original.parameters())
    assert exported.backbone.input_size == original.backbone.input_size


def test_another_number_of_views_is_refused(exported):
    for views in (None, "auto", VIEWS):
        assert exported.views_for(views) == VIEWS
    with pytest.raises(ValueError, match=r"views=2: this file was exported with 4.*--views 2"):
        exported(some_images(), views=2)
    with pytest.raises(ValueError, match="most probable views"):
        exported(some_images(), sampling="random")


def test_images_of_another_size_or_kind_are_refused(exported):
    with pytest.raises(ValueError, match=r"images are \(20, 16\)"):
        exported(torch.zeros(1, 1, 20, 16))
    with pytest.raises(ValueError, match="images have 3 channels"):
        exported(torch.zeros(1, 3, 16, 16))
    with pytest.raises(ValueError, match="not finite"):
        exported(torch.full((1, 1, 16, 16), torch.nan))


def test_it_is_not_turned_back_into_a_folder(exported, tmp_path):
    with pytest.raises(ValueError, match="keep the one it was made from"):
        exported.save_pretrained(tmp_path / "folder")
    assert not list(tmp_path.iterdir())


def test_what_is_no_exported_model_gets_a_sentence(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file"):
        tokenstn.load(tmp_path / "nothing.onnx")
    (tmp_path / "text.onnx").write_text("a text that is no graph")
    with pytest.raises(ValueError, match="cannot be read as an ONNX file"):
        tokenstn.load(tmp_path / "text.onnx")
    graph = onnx.load(made().file)
    with pytest.raises(ValueError, match="leave classifier out"):
        tokenstn.load(made().file, classifier=torch.nn.Identity())
    kept = list(graph.metadata_props)
    for changes, sentence in (
        ({}, "was not written by tokenstn export"),
        ({"format": "99"}, "upgrade tokenstn"),
        ({"preprocessing": "{}"}, "export the model again"),
    ):
        del graph.metadata_props[:]
        metadata = {item.key: item.value for item in kept} | changes if changes else {"format": "1"}
        onnx.helper.set_model_props(graph, metadata)
        onnx.save(graph, tmp_path / "other.onnx")
        with pytest.raises(ValueError, match=sentence):
            tokenstn.load(tmp_path / "other.onnx")
