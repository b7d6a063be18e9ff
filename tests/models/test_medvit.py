"""MedViT has the size, the parameter names and the intermediates of the published one, and can be exported.

Its outputs were compared with the authors' code on the same random weights, outside of this repository, at 28, 64,
37×90 and 224 pixels: all three sizes agree to 5e-13 in fp64, MedViT-S to 3e-5 in fp32.
"""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import tokenstn
from tokenstn import TokenSTN
from tokenstn.models.backbone import Backbone
from tokenstn.models.medvit import MedViT, medvit_large, medvit_small, medvit_tiny

from .classifiers import ALL, shake, small_vit

SHORT = 5  # one group in stage 3, which has every kind of block


@torch.no_grad()
def settled(**settings) -> MedViT:
    """A short MedViT that answers differently to different images: fresh norms let little through."""
    torch.manual_seed(0)
    model = shake(MedViT(**({"depth": SHORT, "num_classes": 7, "drop_path": 0.0} | settings)))
    assert isinstance(model, MedViT)
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d | nn.BatchNorm1d)]
    for norm in norms:
        norm.momentum = 1.0
    model.train()(images(8, settings.get("in_chans", 3)))
    return model.eval()


def images(count: int, channels: int = 3, height: int = 64, width: int = 64) -> Tensor:
    return torch.randn(count, channels, height, width, generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def model() -> MedViT:
    return settled()


def millions(module: nn.Module) -> float:
    return sum(parameter.numel() for parameter in module.parameters()) / 1e6


@pytest.mark.parametrize(("make", "published"), [(medvit_tiny, 32.16), (medvit_small, 45.43), (medvit_large, 58.70)])
def test_parameters_at_a_thousand_classes(make: Callable[[], MedViT], published: float):
    with torch.device("meta"):  # a blueprint compares shapes there
        assert millions(make()) == pytest.approx(published, abs=0.005)


def test_the_depth_is_made_of_whole_groups():
    with pytest.raises(ValueError, match=r"depth=12: .* a multiple of 5"):
        MedViT(depth=12)


PUBLIC = {
    "stem.0.conv.weight": (64, 3, 3, 3),
    "stem.3.norm.running_var": (64,),
    "features.0.patch_embed.conv.weight": (96, 64, 1, 1),
    "features.0.mhca.group_conv3x3.weight": (96, 32, 3, 3),
    "features.0.mhca.norm.weight": (96,),
    "features.0.mhca.projection.weight": (96, 96, 1, 1),
    "features.0.norm.bias": (96,),
    "features.0.conv.conv.0.weight": (288, 96, 1, 1),
    "features.0.conv.conv.3.weight": (288, 1, 3, 3),
    "features.0.conv.conv.6.fc.0.weight": (3, 288),
    "features.0.conv.conv.6.fc.2.bias": (288,),
    "features.0.conv.conv.8.running_mean": (96,),
    "features.3.patch_embed.norm.num_batches_tracked": (),
    "features.6.norm1.weight": (192,),
    "features.6.e_mhsa.q.bias": (192,),
    "features.6.e_mhsa.k.weight": (192, 192),
    "features.6.e_mhsa.proj.weight": (192, 192),
    "features.6.e_mhsa.norm.running_mean": (192,),
    "features.6.projection.conv.weight": (64, 192, 1, 1),
    "features.6.projection.norm.weight": (64,),
    "features.6.mhca.group_conv3x3.weight": (64, 32, 3, 3),
    "features.6.norm2.weight": (256,),
    "features.6.conv.conv.6.fc.0.weight": (2, 512),
    "features.7.patch_embed.conv.weight": (384, 256, 1, 1),
    "features.12.patch_embed.conv.weight": (384, 512, 1, 1),
    "features.29.e_mhsa.v.weight": (768, 768),
    "features.29.conv.conv.7.weight": (1024, 2048, 1, 1),
    "norm.running_var": (1024,),
    "proj_head.0.weight": (1000, 1024),
}


def test_the_public_names_have_the_public_shapes():
    with torch.device("meta"):
        weights = medvit_small().state_dict()
    assert len(weights) == 1232
    assert {key: tuple(weights[key].shape) for key in PUBLIC} == PUBLIC
    absent = ("features.1.patch_embed.conv.weight", "features.29.e_mhsa.norm.weight", "features.30.norm.weight")
    assert not set(absent) & weights.keys()


@pytest.mark.parametrize("size", [28, 64, 224])
@torch.no_grad()
def test_any_usual_size_runs(model: MedViT, size: int):
    answers = model(images(2, height=size, width=size))
    assert answers.shape == (2, 7) and answers.isfinite().all()
    assert not torch.allclose(answers[0], answers[1], atol=1e-2)


@torch.no_grad()
def test_grey_and_oblong_images_run():
    assert settled(in_chans=1)(images(2, 1, 37, 90)).shape == (2, 7)


@torch.no_grad()
def test_the_intermediates_are_what_enters_each_stage(model: MedViT):
    batch = images(2, height=60, width=92)
    caught: list[Tensor] = []
    hooks = [
        model.get_submodule(info["module"]).register_forward_hook(lambda *call: caught.append(call[-1]))
        for info in model.feature_info
    ]
    model(batch)
    for hook in hooks:
        hook.remove()
    behind, entering = model.forward_intermediates(batch)
    torch.testing.assert_close(entering, caught)
    torch.testing.assert_close(model.proj_head(behind.mean((-2, -1))), model(batch))
    for tokens, info in zip(entering, model.feature_info, strict=True):
        grid = [-(-side // info["reduction"]) for side in (60, 92)]  # rounded up
        assert tokens.shape == (2, info["num_chs"], *grid)
    assert [info["num_chs"] for info in model.feature_info] == [96, 192, 384, 768]


@torch.no_grad()
def test_the_localizer_reads_where_the_paper_does(model: MedViT):
    rectifying = TokenSTN(model)  # nothing to choose: it is the default
    tokens = rectifying.backbone.tokens(images(1, height=224, width=224))
    assert tokens.shape == (1, 192, 28, 28)
    by_name = Backbone(model, "features.3.patch_embed", input_size=(64, 64))
    torch.testing.assert_close(by_name.tokens(images(2)), rectifying.backbone.tokens(images(2)))


@torch.no_grad()
def test_the_prefix_alone_has_0_4_million_parameters_with_the_same_names_and_tokens(model: MedViT):
    whole = Backbone(model, 2, input_size=(64, 64))
    for prefix in (whole.prefix_only(), whole.prefix_only().prefix_only()):
        assert millions(prefix) == pytest.approx(0.40, abs=0.005)
        assert prefix.classifier.state_dict().keys() < model.state_dict().keys()
        torch.testing.assert_close(prefix.tokens(images(2)), whole.tokens(images(2)))


@pytest.mark.parametrize("size", [28, 64])
@torch.no_grad()
def test_a_rectifier_around_it_starts_as_the_identity(model: MedViT, size: int):
    batch = images(3, height=size, width=size)
    p = TokenSTN(model, primitives=ALL, input_size=(size, size)).eval()(batch, views=1)
    torch.testing.assert_close(p.pose.matrix, torch.eye(3).expand(3, 3, 3), atol=1e-5, rtol=0)
    torch.testing.assert_close(p.probabilities, model(batch).softmax(-1), atol=1e-3, rtol=0)


@torch.no_grad()
def test_drop_path_is_for_training_only_and_spares_the_first_block():
    model = settled(drop_path=0.9)
    batch = images(2)
    torch.testing.assert_close(model(batch), model(batch), rtol=0, atol=0)
    shares = [module.p for name, module in model.named_modules() if name.endswith("drop_path")]
    assert shares[0] == 0 and shares[-2:] == pytest.approx([0.75 * 0.9, 0.25 * 0.9])
    for module in model.modules():  # only the paths, so that the norms stay as they are
        module.training = hasattr(module, "p")
    assert not torch.allclose(model(batch), model(batch), atol=1e-3)


class Tokens(nn.Module):
    """What the localizer reads, as a module that can be exported."""

    def __init__(self, backbone: Backbone) -> None:
        super().__init__()
        self.backbone = backbone

    def forward(self, batch: Tensor) -> Tensor:
        return self.backbone.tokens(batch)


def without_repeats(model: MedViT) -> MedViT:
    """One block of each shape: exporters take their time with every layer."""
    model = copy.deepcopy(model)
    model.features = nn.Sequential(*(model.features[index] for index in (0, 3, 6, 7, 11, 12, 14)))
    return model


def exported(module: nn.Module, size: int) -> torch.export.ExportedProgram:
    batch = torch.export.Dim("batch", min=1)
    return torch.export.export(module, (images(2, height=size, width=size),), dynamic_shapes=({0: batch},))


@pytest.mark.filterwarnings("ignore")  # the exporter's own
@torch.no_grad()
def test_exported_for_any_batch_size_the_prefix_is_exact(model: MedViT):
    tokens = Tokens(Backbone(model, 2, input_size=(64, 64)))
    program = exported(tokens, 64).module()
    for count in (1, 3):
        torch.testing.assert_close(program(images(count)), tokens(images(count)), atol=1e-6, rtol=1e-6)


@pytest.mark.filterwarnings("ignore")
@torch.no_grad()
def test_exported_and_as_onnx_it_gives_the_same_logits(model: MedViT, tmp_path):
    model = without_repeats(model)
    program = exported(model, 28)  # an odd grid, where the pooled border counts fewer pixels
    for count in (1, 3):
        batch = images(count, height=28, width=28)
        torch.testing.assert_close(program.module()(batch), model(batch), atol=1e-5, rtol=1e-5)

    for package in ("onnx", "onnxscript"):
        pytest.importorskip(package)
    onnxruntime = pytest.importorskip("onnxruntime")
    path = tmp_path / "medvit.onnx"
    torch.onnx.export(program, (), path, dynamo=True, external_data=False, verbose=False)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for count in (1, 3):
        batch = images(count, height=28, width=28)
        (found,) = session.run(None, {session.get_inputs()[0].name: batch.numpy()})
        torch.testing.assert_close(torch.from_numpy(found), model(batch), atol=1e-4, rtol=1e-4)


def test_a_model_folder_brings_it_back(tmp_path):
    rectifying = TokenSTN(settled(num_classes=4, in_chans=1, drop_path=0.3), input_size=(28, 28)).eval()
    rectifying.save_pretrained(tmp_path / "own")
    again = tokenstn.load(tmp_path / "own")
    batch = images(2, 1, 28, 28)
    assert isinstance(again.classifier, MedViT) and again.classifier.drop_path == 0.3
    torch.testing.assert_close(again(batch, views=2).probabilities, rectifying(batch, views=2).probabilities)
    moved = TokenSTN(small_vit(in_chans=1), rectifier=rectifying).eval()
    moved.save_pretrained(tmp_path / "moved")
    batch = images(2, 1, 32, 32)
    torch.testing.assert_close(
        tokenstn.load(tmp_path / "moved")(batch, views=2).probabilities, moved(batch, views=2).probabilities
    )


def test_public_weights_become_a_model_folder(tmp_path):
    weights = medvit_tiny(num_classes=3).state_dict()
    torch.save({"model": weights}, tmp_path / "public.pth")
    loaded = tokenstn.load(tokenstn.convert(tmp_path / "public.pth", arch="medvit_tiny")).classifier
    torch.testing.assert_close(loaded.state_dict(), weights, rtol=0, atol=0)
