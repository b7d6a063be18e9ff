"""Foreign checkpoints become model folders whole or not at all, and nothing in them is run."""

import argparse
import os
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
import timm
import torch
import torchvision
from safetensors.torch import save_file
from torch import nn

import tokenstn
from tokenstn.models.blueprint import Blueprint
from tokenstn.models.checkpoint import _blueprint_for
from tokenstn.models.keys import KeyReport

from .classifiers import PlainCNN, shake

TINY = "test_vit"  # timm's own, of 0.4 million weights


def classifier_of(arch: str = TINY, **changes) -> nn.Module:
    return shake(timm.create_model(arch, **{"num_classes": 4, "img_size": 32} | changes)).eval()


@pytest.fixture(scope="module")
def classifier() -> nn.Module:
    return classifier_of()


def assert_probabilities_of(folder: Path, classifier: nn.Module, channels: int = 3, size: int = 32) -> None:
    images = torch.rand(2, channels, size, size)
    with torch.no_grad():
        expected = classifier(images).softmax(-1)
        torch.testing.assert_close(tokenstn.load(folder)(images).probabilities, expected)


def test_the_folder_holds_a_bare_classifier_with_its_class_names(classifier, tmp_path):
    torch.save(classifier.state_dict(), tmp_path / "w.pth")
    folder = tokenstn.convert(tmp_path / "w.pth", TINY, classes=["a", "b", "c", "d"])
    model = tokenstn.load(folder)
    assert folder == tmp_path / "w"
    assert model.primitives == ()
    assert model.localizer is None
    assert model.classes == ("a", "b", "c", "d")
    assert_probabilities_of(folder, classifier)


def around(weights: dict) -> dict:
    """What training scripts save beside the weights."""
    return {
        "epoch": 3,
        "arch": "vit",
        "state_dict": weights,
        "args": argparse.Namespace(lr=0.1, betas=(0.9, 0.99), name="run"),
        "best_acc": np.float64(0.9),
        "best_epoch": np.int64(2),
        "step": torch.tensor(7),
        "optimizer": {"state": {0: {"exp_avg": torch.zeros(2)}}, "param_groups": [{"lr": 0.1}]},
    }


def prefixed(*prefixes: str):
    return lambda weights: OrderedDict(("".join(prefixes) + key, value) for key, value in weights.items())


CONTENTS = {
    "state dict": dict,
    "parameters": lambda weights: {key: nn.Parameter(value) for key, value in weights.items()},
    "training script": around,
    "nested twice": lambda weights: {"model": {"state_dict": weights}, "epoch": 1},
    "DataParallel": prefixed("module."),
    "compiled": prefixed("_orig_mod."),
    "compiled DataParallel in a Lightning module": lambda weights: around(
        prefixed("model.", "module.", "_orig_mod.")(weights)
    ),
}


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("suffix", [".pth", ".pth.tar", ".pt"])
@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
def test_weights_are_found_in_what_scripts_save(classifier, tmp_path, content, suffix, zipped):
    path = tmp_path / f"w{suffix}"
    torch.save(CONTENTS[content](classifier.state_dict()), path, _use_new_zipfile_serialization=zipped)
    assert_probabilities_of(tokenstn.convert(path, TINY), classifier)


@pytest.mark.parametrize("prefix", ["", "module."])
def test_weights_are_found_in_safetensors(classifier, tmp_path, prefix):
    save_file(dict(prefixed(prefix)(classifier.state_dict())), tmp_path / "w.safetensors")
    assert_probabilities_of(tokenstn.convert(tmp_path / "w.safetensors", TINY), classifier)


def test_averaged_weights_are_preferred(classifier, tmp_path):
    other = classifier_of(num_classes=4)
    nn.init.zeros_(other.head.weight)
    torch.save({"state_dict": other.state_dict(), "state_dict_ema": classifier.state_dict()}, tmp_path / "w.pth")
    assert_probabilities_of(tokenstn.convert(tmp_path / "w.pth", TINY), classifier)


def test_numbers_as_the_first_numpy_wrote_them_are_read(classifier, tmp_path):
    torch.save(around(classifier.state_dict()), tmp_path / "w.pth", _use_new_zipfile_serialization=False)
    content = (tmp_path / "w.pth").read_bytes()
    assert b"cnumpy._core.multiarray\n" in content
    (tmp_path / "w.pth").write_bytes(content.replace(b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n"))
    assert_probabilities_of(tokenstn.convert(tmp_path / "w.pth", TINY), classifier)


@pytest.mark.parametrize(
    ("arch", "make", "channels", "size"),
    [
        (TINY, lambda: classifier_of(num_classes=7), 3, 32),
        (TINY, lambda: classifier_of(in_chans=1), 1, 32),
        (TINY, lambda: classifier_of(in_chans=4, img_size=64), 4, 64),
        ("test_resnet", lambda: classifier_of("test_resnet", num_classes=3, in_chans=1, img_size=None), 1, 48),
        ("test_convnext", lambda: classifier_of("test_convnext", img_size=None), 3, 64),
        ("torchvision/resnet18", lambda: shake(torchvision.models.resnet18(num_classes=3)).eval(), 3, 64),
        ("squeezenet1_1", lambda: shake(torchvision.models.squeezenet1_1(num_classes=3)).eval(), 3, 64),
        ("regnet_y_400mf", lambda: torchvision.models.regnet_y_400mf(num_classes=3).eval(), 3, 64),
    ],
)
def test_classes_channels_and_image_size_are_read_off_the_weights(arch, make, channels, size, tmp_path):
    classifier = make()
    torch.save(classifier.state_dict(), tmp_path / "w.pth")
    assert_probabilities_of(tokenstn.convert(tmp_path / "w.pth", arch), classifier, channels, size)


def test_the_image_size_of_a_torchvision_transformer_is_read_off_its_positions():
    wanted = Blueprint("torchvision", "vit_b_32", {"num_classes": 3, "image_size": 64})
    assert _blueprint_for("vit_b_32", wanted.skeleton().state_dict()) == wanted


@pytest.mark.parametrize("arch", [TINY, "squeezenet1_1"])
def test_class_names_are_counted(arch, tmp_path):
    make = timm.create_model if timm.is_model(arch) else torchvision.models.get_model
    torch.save(make(arch, num_classes=4).state_dict(), tmp_path / "w.pth")
    with pytest.raises(ValueError, match=r"4 classes, 3 names were given\. Nothing was written"):
        tokenstn.convert(tmp_path / "w.pth", arch, classes=["a", "b", "c"])
    assert [path.name for path in tmp_path.iterdir()] == ["w.pth"]


def test_the_folder_goes_where_it_is_wanted(classifier, tmp_path):
    torch.save(classifier.state_dict(), tmp_path / "weights")  # no suffix to take away
    assert tokenstn.convert(tmp_path / "weights", TINY) == tmp_path / "weights-model"
    assert tokenstn.convert(str(tmp_path / "weights"), TINY, out=str(tmp_path / "a" / "b")) == tmp_path / "a" / "b"
    assert_probabilities_of(tmp_path / "a" / "b", classifier)


@pytest.mark.parametrize(
    ("name", "folder"),
    [("fold.1.pth", "fold.1"), ("acc0.91.pth.tar", "acc0.91"), ("a.b.safetensors", "a.b"), (".best.pt", ".best")],
)
def test_the_folder_beside_a_checkpoint_has_all_of_its_name(classifier, tmp_path, name, folder):
    """Or the second of two would replace the first."""
    (save_file if name.endswith("safetensors") else torch.save)(classifier.state_dict(), tmp_path / name)
    assert tokenstn.convert(tmp_path / name, TINY) == tmp_path / folder


# --- what is refused


class Trap:
    """Leaves a file behind when it is unpickled as any other object."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self):
        return os.system, (f"touch '{self.marker}'",)


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
@pytest.mark.parametrize("inside", [lambda trap, _: trap, lambda trap, weights: {**around(weights), "args": trap}])
def test_code_in_a_checkpoint_is_not_run(classifier, tmp_path, inside, zipped):
    marker, path = tmp_path / "marker", tmp_path / "w.pth"
    torch.save(inside(Trap(marker), classifier.state_dict()), path, _use_new_zipfile_serialization=zipped)
    with pytest.raises(ValueError, match=r"holds more than weights and is not opened.*system"):
        tokenstn.convert(path, TINY)
    assert [found.name for found in tmp_path.iterdir()] == ["w.pth"]
    torch.load(path, weights_only=False)
    assert marker.exists()  # the trap would have worked


def test_a_trap_inside_an_allowed_type_is_not_run(classifier, tmp_path):
    marker = tmp_path / "marker"
    args = argparse.Namespace(trap=Trap(marker))
    torch.save({"state_dict": classifier.state_dict(), "args": args}, tmp_path / "w.pth")
    with pytest.raises(ValueError, match="not opened"):
        tokenstn.convert(tmp_path / "w.pth", TINY)
    assert not marker.exists()


def test_a_pickled_module_is_refused_by_the_name_of_its_class(tmp_path):
    torch.save(PlainCNN(), tmp_path / "w.pth")
    with pytest.raises(ValueError, match=r"asks for .*PlainCNN\. Save only the state dict"):
        tokenstn.convert(tmp_path / "w.pth", TINY)


@pytest.mark.parametrize("suffix", [".pth", ".pth.tar", ".safetensors"])
@pytest.mark.parametrize(
    "content",
    [b"", b"hello", b'{"a": 1}', b"\x89PNG\r\n\x1a\n", b"PK\x03\x04zip", b"\x80\x02.", b"hU.", b"\x80\x02}q\x00."],
)
def test_a_file_that_is_no_checkpoint_is_refused(tmp_path, suffix, content):
    path = tmp_path / f"w{suffix}"
    path.write_bytes(content)
    with pytest.raises(
        ValueError, match=r"is not a checkpoint that torch can read|is not a safetensors file|holds no weights"
    ):
        tokenstn.convert(path, TINY)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
def test_a_checkpoint_cut_short_is_refused(classifier, tmp_path, zipped, share):
    path = tmp_path / "w.pth"
    torch.save(classifier.state_dict(), path, _use_new_zipfile_serialization=zipped)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match="is not a checkpoint that torch can read"):
        tokenstn.convert(path, TINY)


@pytest.mark.parametrize("name", ["absent.pth", "."])
def test_a_missing_file_is_named(tmp_path, name):
    with pytest.raises(FileNotFoundError, match="there is no checkpoint"):
        tokenstn.convert(tmp_path / name, TINY)


@pytest.mark.parametrize(
    "content",
    [{}, [], 3, torch.zeros(2), {"epoch": 3}, {"state_dict": {}}, {0: torch.zeros(2)}, {"state_dict": {"a": "b"}}],
    ids=repr,
)
def test_a_checkpoint_without_weights_is_refused(tmp_path, content):
    torch.save(content, tmp_path / "w.pth")
    with pytest.raises(ValueError, match="holds no weights"):
        tokenstn.convert(tmp_path / "w.pth", TINY)


def test_a_checkpoint_that_holds_itself_is_refused(tmp_path):
    content = {"epoch": 3}
    content["model"] = {"state_dict": content}
    torch.save(content, tmp_path / "w.pth")
    with pytest.raises(ValueError, match="holds no weights"):
        tokenstn.convert(tmp_path / "w.pth", TINY)


def test_a_checkpoint_is_read_once(classifier, tmp_path, monkeypatch):
    torch.save(classifier.state_dict(), tmp_path / "w.pth")
    read, load = [], torch.load
    monkeypatch.setattr(torch, "load", lambda path, **options: (read.append(path), load(path, **options))[1])
    tokenstn.convert(tmp_path / "w.pth", TINY)
    assert read == [tmp_path / "w.pth"]


@pytest.mark.parametrize(
    "arch", ["no_such_model", "hf-hub:timm/vit_tiny", "local-dir:/tmp", "torchvision/no_such", "../evil", ""]
)
def test_an_unknown_architecture_is_refused(classifier, tmp_path, arch):
    torch.save(classifier.state_dict(), tmp_path / "w.pth")
    with pytest.raises(ValueError, match="has no model named"):
        tokenstn.convert(tmp_path / "w.pth", arch)


@pytest.mark.parametrize(
    ("arch", "alter", "reasons"),
    [
        ("test_resnet", dict, ("missing: conv1", "unexpected: cls_token")),
        ("pit_ti_224", dict, ("missing", "unexpected", "another shape")),
        ("vit_tiny_patch16_224", dict, ("missing", "another shape")),
        (TINY, lambda weights: {**weights, "extra": torch.zeros(1)}, ("1 unexpected: extra",)),
        (TINY, lambda weights: {k: v for k, v in weights.items() if k != "norm.bias"}, ("1 missing: norm.bias",)),
        (TINY, lambda weights: {**weights, "norm.bias": torch.zeros(9)}, (r"norm.bias \(9,\) instead of",)),
        (TINY, lambda weights: {**weights, "pos_embed": torch.zeros(3)}, (r"pos_embed \(3,\) instead of",)),
        (TINY, lambda weights: {**weights, "pos_embed": torch.zeros(1, 0, 64)}, ("pos_embed",)),
        (TINY, lambda weights: {**weights, "patch_embed.proj.weight": torch.zeros(3)}, ("patch_embed.proj.weight",)),
        (TINY, lambda weights: {**weights, "head.weight": torch.zeros(())}, ("head.weight",)),
        (TINY, lambda weights: {k: v for k, v in weights.items() if "head" not in k}, ("2 missing: head.weight",)),
    ],
)
def test_weights_of_something_else_are_reported_and_nothing_is_written(classifier, tmp_path, arch, alter, reasons):
    torch.save(alter(classifier.state_dict()), tmp_path / "w.pth")
    with pytest.raises(ValueError, match=rf"does not hold the weights of {arch}") as caught:
        tokenstn.convert(tmp_path / "w.pth", arch)
    for reason in reasons:
        assert caught.match(reason)
    assert caught.match("Nothing was written")
    assert [path.name for path in tmp_path.iterdir()] == ["w.pth"]


# --- the report


def test_the_report_names_each_difference_once():
    wanted = {"a": torch.zeros(2), "b": torch.zeros(3), "c": torch.zeros(4)}
    report = KeyReport.compare(wanted, {"b": torch.zeros(3), "c": torch.zeros(5), "d": torch.zeros(1)})
    assert report == KeyReport(missing=("a",), unexpected=("d",), shapes=("c (5,) instead of (4,)",))
    assert str(report) == "1 missing: a; 1 unexpected: d; 1 of another shape: c (5,) instead of (4,)"
    assert not report.fits


def test_the_report_of_equal_keys_fits():
    weights = {"a": torch.zeros(2)}
    assert KeyReport.compare(weights, weights).fits
    assert str(KeyReport.compare(weights, weights)) == "all keys fit"


def test_a_long_report_is_cut():
    report = KeyReport.compare({f"layer{i}": torch.zeros(1) for i in range(100)}, {})
    assert str(report) == "100 missing: layer0, layer1, layer2, layer3, layer4 and 95 more"


def test_a_preprocessing_for_other_channels_is_refused_before_anything_is_written(tmp_path):
    torch.save(timm.create_model("resnet10t", num_classes=3).state_dict(), tmp_path / "weights.pth")
    grey = tokenstn.Preprocessing((64, 64), (0.5,), (0.5,))
    with pytest.raises(ValueError, match=r"have 1 number, and this resnet10t takes images of 3 channels.*Nothing was"):
        tokenstn.convert(tmp_path / "weights.pth", "resnet10t", preprocessing=grey)
    assert not (tmp_path / "weights").exists()
