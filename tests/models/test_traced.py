"""Compiled, exported and in half precision, a model with a given number of views answers as it does in eager fp32.

Tolerances on probabilities: bf16 autocast 0.02, compiled 1e-5 (other kernels, other order of sums), exported 1e-6.
"""

import pytest
import torch
from torch import Tensor

from tokenstn import Prediction, TokenSTN

from .classifiers import ALL, PlainCNN, shake, small_vit
from .flags import at_medians


def make(kind: str) -> tuple[TokenSTN, Tensor]:
    torch.manual_seed(0)
    if kind == "ViT at half size":
        model = TokenSTN(shake(small_vit(depth=2)), primitives=ALL, shared=1)
    else:
        model = TokenSTN(shake(PlainCNN(), 3.0), primitives=ALL, shared="body", input_size=(32, 32))
    shake(model.localizer, 1.0)
    return model.eval(), torch.randn(4, 3, 32, 32)


KINDS = ("ViT at half size", "graph of a CNN")


def assert_same(found: Prediction, expected: Prediction, tolerance: float, angle: float) -> None:
    torch.testing.assert_close(found.probabilities.float(), expected.probabilities, atol=tolerance, rtol=0)
    torch.testing.assert_close(found.pose.matrix, expected.pose.matrix, atol=angle, rtol=0)
    torch.testing.assert_close(found.views.weights, expected.views.weights, atol=angle, rtol=0)
    for name in ALL:
        torch.testing.assert_close(found.entropy[name], expected.entropy[name], atol=angle, rtol=0)


def assert_same_flags(found: Prediction, expected: Prediction) -> None:
    assert found.class_uncertain.tolist() == expected.class_uncertain.tolist()
    assert found.pose_ambiguous.tolist() == expected.pose_ambiguous.tolist()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("views", [1, 3])
@torch.no_grad()
def test_bf16_autocast_gives_the_fp32_answer(kind, views):
    model, images = make(kind)
    expected = model(images, views=views)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = model(images, views=views)
    assert found.pose.matrix.dtype == found.probabilities.dtype == torch.float32
    assert_same(found, expected, tolerance=0.02, angle=0.05)


@torch.no_grad()
def test_a_model_cast_to_bf16_runs():
    model, images = make("ViT at half size")
    p = model.bfloat16()(images.bfloat16(), views=2)
    assert p.rectified.dtype == torch.bfloat16 and p.pose.matrix.dtype == torch.float32


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore")  # the compiler's own
@torch.no_grad()
def test_compiled_without_a_graph_break_gives_the_eager_answer(kind):
    model, images = make(kind)
    model.thresholds = at_medians(model(images, views=2), 2)
    expected = model(images, views=2)
    assert expected.class_uncertain.sum() == expected.pose_ambiguous.sum() == 2
    found = torch.compile(model, fullgraph=True)(images, views=2)
    assert_same(found, expected, tolerance=1e-5, angle=1e-4)
    assert_same_flags(found, expected)
    torch._dynamo.reset()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore")
@torch.no_grad()
def test_exported_with_a_dynamic_batch_is_exact(kind):
    model, images = make(kind)
    model.thresholds = at_medians(model(images, views=3), 3)
    batch = torch.export.Dim("batch", min=1)
    program = torch.export.export(
        model, (images[:2],), {"views": 3}, dynamic_shapes={"images": {0: batch}, "views": None}
    )
    for size in (1, 3, 4):
        expected = model(images[:size], views=3)
        found = program.module()(images[:size], views=3)
        assert_same(found, expected, tolerance=1e-6, angle=1e-6)
        assert_same_flags(found, expected)


def test_auto_views_are_refused_while_compiling():
    model, images = make("graph of a CNN")
    with pytest.raises(Exception, match='views="auto" depends on the images'):
        torch.export.export(model, (images,), {"views": "auto"})
