"""Exported graphs of a ViT, a Swin, a MedViT and a CNN answer as PyTorch does, for photos and batches of any size.

The tolerance is that of the export, 1e-4 on probabilities. Parts that do not depend on the classifier are traced once.
"""

from functools import cache

import numpy as np
import onnx
import pytest
import timm
import torch
from onnx import ModelProto
from torch import Tensor, nn

from tokenstn import TokenSTN
from tokenstn.data import fit, to_float
from tokenstn.inference.export import info_of, photos_to_trace
from tokenstn.inference.export_graph import join, piece_of
from tokenstn.inference.export_parts import Classifying, Localizing, everything, parts_of, public_outputs
from tokenstn.models import MedViT, Preprocessing

from ..models.classifiers import PlainCNN, settle_batch_norm, shake, small_vit

pytestmark = pytest.mark.slow
SIDE = 56
PREPARED = Preprocessing((SIDE, SIDE), (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), "crop", 0.9)
CLASSIFIERS = {
    "ViT": lambda: small_vit(img_size=SIDE, patch_size=7, depth=2),
    "Swin": lambda: timm.create_model(
        "swin_tiny_patch4_window7_224", img_size=SIDE, embed_dim=24, depths=(1, 1), num_heads=(2, 4), num_classes=5
    ),
    "MedViT": lambda: short_medvit(),
    "CNN": PlainCNN,
}
VIEWS = (1, 4)


def short_medvit() -> MedViT:
    """Of each stage the block that begins it, and the one with attention: the whole takes twice as long to trace."""
    network = MedViT(depth=5, num_classes=5)
    network.features = nn.Sequential(*(network.features[place] for place in (0, 3, 6, 7, 11, 12, 14)))
    network.stage_starts = [0, 1, 3, 5]
    return network


@cache
def model_of(kind: str) -> TokenSTN:
    torch.manual_seed(0)
    network: nn.Module = settle_batch_norm(shake(CLASSIFIERS[kind]())).eval()
    shared = "body" if kind == "CNN" else 1
    model = TokenSTN(network, ("rotation",), shared=shared, preprocessing=PREPARED, input_size=(SIDE, SIDE))
    shake(model.localizer, 1.0)
    head = [module for module in network.modules() if isinstance(module, nn.Linear)][-1]
    with torch.no_grad():
        head.weight.mul_(10)  # so that it says different things about different images
    return model.eval()


@cache
def graph_of(kind: str, views: int) -> ModelProto:
    model = model_of(kind)
    info = info_of(model, PREPARED, views)
    parts = parts_of(model, info)
    with torch.no_grad():
        known = everything(parts, photos_to_trace(PREPARED))
    pieces = [own_piece(kind, type(part)) if isinstance(part, Localizing | Classifying) else
              common_piece(type(part), views) for part in parts]  # fmt: skip
    return join(pieces, public_outputs(model, known), info.to_metadata())


@cache
def own_piece(kind: str, part: type) -> ModelProto:
    return traced(model_of(kind), part, 4)


@cache
def common_piece(part: type, views: int) -> ModelProto:
    return traced(model_of("CNN"), part, views)


def traced(model: TokenSTN, part: type, views: int) -> ModelProto:
    parts = parts_of(model, info_of(model, PREPARED, views))
    with torch.no_grad():
        known = everything(parts, photos_to_trace(PREPARED))
    return piece_of(next(one for one in parts if type(one) is part), known)


def run(graph: ModelProto, photos: Tensor) -> dict[str, np.ndarray]:
    runtime = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(graph.SerializeToString(), options)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"photos": photos.numpy()}), strict=True))


@pytest.mark.parametrize("views", VIEWS)
@pytest.mark.parametrize("kind", CLASSIFIERS)
@torch.no_grad()
def test_every_backbone_answers_as_pytorch_does(kind, views):
    model, graph = model_of(kind), graph_of(kind, views)
    generator = torch.Generator().manual_seed(1)
    answers = []
    for shape in ((1, 3, 90, 61), (3, 3, SIDE, SIDE), (2, 3, 40, 120)):
        photos = torch.randint(256, shape, generator=generator, dtype=torch.uint8)
        fitted = torch.stack([fit(photo, PREPARED.size, "crop", 0.9) for photo in photos])
        expected = model(to_float(fitted, PREPARED.mean, PREPARED.std), views=views)
        found = run(graph, photos)
        np.testing.assert_allclose(found["probabilities"], expected.probabilities.numpy(), atol=1e-4, rtol=0)
        turn = found["rotation"] - expected.pose.rotation.numpy()
        assert np.abs((turn + np.pi) % (2 * np.pi) - np.pi).max() < 1e-3
        np.testing.assert_allclose(found["entropy_rotation"], expected.entropy["rotation"].numpy(), atol=1e-3)
        np.testing.assert_allclose(found["view_weights"], expected.views.weights.numpy(), atol=1e-3)
        np.testing.assert_allclose(found["disagreement"], expected.disagreement.numpy(), atol=1e-3)
        answers.append(found)
    assert answers[0]["view_matrices"].shape == (1, views, 3, 3)
    every = np.concatenate([answer["probabilities"] for answer in answers])
    assert np.ptp(every, axis=0).max() > 0.01, "a network that always says the same proves nothing"


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_the_graph_spells_its_sampling_as_every_runtime_reads_it(kind):
    graph = graph_of(kind, 4)
    assert [(item.domain, item.version) for item in graph.opset_import] == [("", 18)]

    def settings(kind_of_node: str) -> list[dict]:
        found = (node for node in graph.graph.node if node.op_type == kind_of_node)
        return [{a.name: onnx.helper.get_attribute_value(a) for a in node.attribute} for node in found]

    (sampling,) = settings("GridSample")
    assert (sampling["mode"], sampling["padding_mode"], sampling["align_corners"]) == (b"bilinear", b"reflection", 0)
    for resize in settings("Resize"):  # of the localizer, which reads at half the size
        assert (resize["mode"], resize["antialias"], resize["exclude_outside"]) == (b"linear", 1, 1)
        assert resize["coordinate_transformation_mode"] == b"half_pixel"


def test_weights_that_the_localizer_shares_are_written_once():
    graph, model = graph_of("ViT", 4), model_of("ViT")
    weights = sum(parameter.numel() for parameter in model.parameters())
    written = sum(int(np.prod(tensor.dims)) for tensor in graph.graph.initializer if tensor.data_type == 1)
    assert weights * 0.98 < written < weights * 1.05


class Moody(PlainCNN):
    """Does something else with bright images, which a graph cannot."""

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images if images.mean() > 0 else -images)


def test_a_classifier_that_cannot_be_traced_gets_a_sentence():
    model = TokenSTN(Moody(), (), input_size=(16, 16), preprocessing=PREPARED).eval()
    with pytest.raises(ValueError, match=r"torch cannot export this model to ONNX: classifying fails \(.+\); perhaps"):
        piece_of(Classifying(model), {"images": torch.randn(2, 3, 16, 16)})


@pytest.mark.parametrize("posterior", ["student", "point"])
@torch.no_grad()
def test_other_posteriors_and_primitives_can_be_exported(posterior):
    torch.manual_seed(0)
    small = Preprocessing((16, 16), (0.5,) * 3, (0.25,) * 3)
    primitives = ("translation", "reflection")
    model = TokenSTN(PlainCNN(), primitives, posterior, "body", preprocessing=small, input_size=(16, 16)).eval()
    shake(model.localizer, 1.0)
    parts = parts_of(model, info_of(model, small, 3))[1:3]
    images = torch.randn(3, 3, 16, 16)
    known = {"images": images, **parts[0](images)}
    wanted = parts[1](images, known["beliefs"])
    piece = piece_of(parts[1], {name: values[:2] for name, values in known.items()})
    session = pytest.importorskip("onnxruntime").InferenceSession(piece.SerializeToString())
    names = [name for name in wanted if name != "rectified"]
    fed = {"images": images.numpy(), "beliefs": known["beliefs"].numpy()}
    for name, found in zip(names, session.run(names, fed), strict=True):
        np.testing.assert_allclose(found, wanted[name].numpy(), atol=1e-4, rtol=1e-4, err_msg=name)
    expected = model(images, views=3)
    torch.testing.assert_close(wanted["view_weights"], expected.views.weights)
    torch.testing.assert_close(wanted["spread_translation"], expected.spread["translation"])
