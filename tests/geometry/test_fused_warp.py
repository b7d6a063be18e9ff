"""The kernel warps as the plain way does: on a GPU, and elsewhere in Triton's interpreter."""

from __future__ import annotations

from unittest import mock

import pytest
import torch
from torch import Tensor

from tests.one_kernel import in_the_interpreter, needs_cuda, needs_triton, without_cuda
from tokenstn.geometry import Pose, warp
from tokenstn.geometry.one_kernel import triton_runs

# images (height, width), output, dtype, tolerance: a bfloat16 of about 2 is rounded by 2⁻⁷
CASES = [
    ((20, 20), (20, 20), "float32", 1e-4),
    ((17, 30), (12, 21), "float32", 1e-4),
    ((31, 14), (31, 14), "bfloat16", 2**-6),
    ((1, 1), (3, 2), "float16", 1e-6),
    ((17, 30), (40, 33), "float32", 1e-4),  # more pixels than one program makes
]


def views_of(count: int) -> Tensor:
    """Four poses for each image, far outside of it included: ``(count, 4, 3, 3)``."""
    generator = torch.Generator().manual_seed(0)

    def between(low: float, high: float, *more: int) -> Tensor:
        return low + (high - low) * torch.rand(count, 4, *more, generator=generator)

    return Pose.of(
        rotation=between(-3, 3), scale=between(0.3, 2.3), shear=between(-0.2, 0.2), translation=between(-2, 2, 2)
    ).matrix


def largest_difference(case: int, device: str) -> float:
    """Between the kernel and the plain way, in contiguous images and in those whose channels come last."""
    from tokenstn.geometry.fused_warp import fused_warp

    shape, size, kind, _ = CASES[case]
    images = torch.randn(3, 2, *shape, generator=torch.Generator().manual_seed(1)).to(device, getattr(torch, kind))
    views = views_of(3).to(device)
    with mock.patch("tokenstn.geometry.warp._in_one_kernel", return_value=False):
        plain = warp(images, views, size)
    fused = (fused_warp(images, views, size), fused_warp(images.to(memory_format=torch.channels_last), views, size))
    assert all(found.dtype == images.dtype and found.shape == plain.shape for found in fused)
    return max((found.float() - plain.float()).abs().max().item() for found in fused)


@needs_triton
@without_cuda
def test_the_kernel_is_the_plain_warp_in_the_interpreter():
    in_the_interpreter(
        __name__, "assert all(largest_difference(case, 'cpu') <= CASES[case][-1] for case in range(len(CASES)))"
    )


@needs_triton
@pytest.mark.parametrize(("views", "size"), [(70_000, (8, 8)), (1, (9_000, 9_000))], ids=["many views", "large"])
def test_no_axis_of_the_grid_but_the_first_is_long(views, size):
    """CUDA takes up to 65,535 programs along the others."""
    from tokenstn.geometry import fused_warp

    with mock.patch.object(fused_warp, "_warp_kernel", mock.MagicMock()) as kernel:
        fused_warp.fused_warp(torch.empty(1, 1, 4, 4, device="meta"), torch.empty(1, views, 3, 3, device="meta"), size)
    (first, *others) = kernel.__getitem__.call_args.args[0]
    assert first * fused_warp.PIXELS >= views * size[0] * size[1] and all(axis <= 65_535 for axis in others)


def compiled_operations() -> set[str]:
    """Compile a warp that goes through the kernel, see that it is the plain one, and name what the graph is made of."""
    images, views = torch.rand(2, 3, 16, 12), views_of(2)
    plain, graphs = warp(images, views), []

    def keep(graph: torch.fx.GraphModule, _) -> torch.fx.GraphModule:
        graphs.append(graph)
        return graph

    def always(*_: Tensor) -> bool:  # which the compiler can read, unlike a mock
        return True

    with mock.patch("tokenstn.geometry.warp._in_one_kernel", always):
        found = torch.compile(lambda *given: warp(*given, validate=False), fullgraph=True, backend=keep)(images, views)
    torch.testing.assert_close(found, plain)
    return {str(node.target) for graph in graphs for node in graph.graph.nodes if node.op == "call_function"}


@needs_triton
@without_cuda
def test_a_compiled_graph_has_the_kernel_as_one_operation():
    in_the_interpreter(
        __name__, "found = compiled_operations(); assert any('tokenstn.warp' in name for name in found), found"
    )


@needs_triton
@pytest.mark.skipif(torch.cuda.is_available(), reason="Triton runs where there is a GPU")
def test_where_triton_does_not_run_it_says_so_once_and_the_plain_way_is_taken():
    triton_runs.cache_clear()
    with mock.patch("torch.cuda.get_device_capability", return_value=(9, 0)):
        with pytest.warns(UserWarning, match="in several steps, because Triton does not run here: "):
            assert not triton_runs(torch.device("cpu"))
        assert not triton_runs(torch.device("cpu"))  # and is not tried again
    triton_runs.cache_clear()


@needs_triton
@needs_cuda
@pytest.mark.parametrize("case", range(len(CASES)))
def test_the_kernel_is_the_plain_warp_on_a_gpu(case):
    assert largest_difference(case, "cuda") <= CASES[case][-1]


@needs_triton
@needs_cuda
def test_a_gpu_warps_in_one_kernel_unless_a_gradient_is_wanted():
    images, views = torch.rand(2, 3, 16, 16, device="cuda"), views_of(2).cuda()
    warp(images, views)  # whether Triton runs is tried once, with the kernel itself
    with mock.patch("tokenstn.geometry.fused_warp.fused_warp", side_effect=RuntimeError("the kernel")):
        with pytest.raises(RuntimeError, match="the kernel"):
            warp(images, views)
        for moved, turned in ((images.clone().requires_grad_(), views), (images, views.clone().requires_grad_())):
            warp(moved, turned).sum().backward()
        for how in ({"padding": "zeros"}, {"padding": "border"}, {"mode": "nearest"}):
            warp(images, views, **how)
        warp(images.double(), views)
        warp((255 * images).byte(), views)


@needs_triton
@needs_cuda
def test_compiled_it_is_the_same():
    images, views = torch.rand(2, 3, 16, 16, device="cuda"), views_of(2).cuda()

    def squares(images: Tensor, views: Tensor) -> Tensor:
        return warp(images, views, validate=False) ** 2

    with torch.no_grad():
        expected = squares(images, views)
        torch.testing.assert_close(torch.compile(squares, fullgraph=True)(images, views), expected)
        torch.compiler.reset()
        broken = mock.patch("tokenstn.geometry.fused_warp.fused_warp", side_effect=RuntimeError("the kernel"))
        with broken, pytest.raises(RuntimeError, match="the kernel"):
            torch.compile(squares, fullgraph=True)(images, views)


@needs_triton
@needs_cuda
def test_what_is_no_number_reads_a_pixel_and_nothing_outside():
    images = torch.ones(1, 1, 8, 8, device="cuda")
    for bad in (float("nan"), float("inf"), 1e30):
        matrix = torch.eye(3, device="cuda").repeat(1, 1, 1)
        matrix[0, 0, 2] = bad
        assert torch.equal(warp(images, matrix, validate=False), images)


@needs_triton
@needs_cuda
def test_no_image_gives_no_view():
    assert warp(torch.rand(0, 3, 8, 8, device="cuda"), torch.zeros(0, 2, 3, 3, device="cuda")).shape == (0, 2, 3, 8, 8)
