"""Any document at all is used or refused with a sentence. ``benchmarks/reliability/configs.py`` tries thousands."""

import json
import re
import resource
import warnings
from pathlib import Path

import pytest
import timm
import torch

import tokenstn
from tokenstn import TokenSTN
from tokenstn.benchmark.files import read_experiment
from tokenstn.geometry import group

from .drills import drill

kinds = drill("config_kinds")
NEEDS = {
    "an exported model.onnx": "onnxruntime",
    "the metadata of model.onnx": "onnxruntime",
    "reference.json": "prometheus_client",
}


@pytest.mark.parametrize("name", list(kinds.KINDS))
def test_a_document_is_used_or_refused_with_a_sentence(name, tmp_path, monkeypatch):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(kinds, "ROOT", Path(__file__).parents[2])
    mutants, attempt = kinds.KINDS[name].prepare(tmp_path, 12)
    refused = 0
    for mutant in mutants:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                attempt(mutant)
            except (ValueError, FileNotFoundError) as error:
                refused += 0 < len(str(error)) < 2000
    assert refused > 5
    assert not (tmp_path / "executed").exists()


@pytest.fixture(scope="module")
def vit(tmp_path_factory) -> Path:
    return drill("small_model").saved_model(tmp_path_factory.mktemp("vit"))


@pytest.fixture(scope="module")
def resnet(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("resnet")
    TokenSTN(timm.create_model("resnet10t", num_classes=3), primitives=(), input_size=(32, 32)).save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    ("model", "arguments"),
    [
        ("vit", {"embed_dim": 48_000}),
        ("vit", {"embed_dim": 48 * 10**12}),
        ("vit", {"depth": 5_000}),
        ("vit", {"depth": 10**9}),
        ("vit", {"num_classes": 200_000}),
        ("vit", {"img_size": [4096, 4096]}),
        ("vit", {"mlp_ratio": 1e5}),
        ("vit", {"mlp_ratio": 1e300}),
        ("vit", {"reg_tokens": 200_000}),
        ("vit", {"patch_size": 0}),
        ("vit", {"depth": [3] * 100_000}),
        ("resnet", {"layers": [10_000] * 4}),
        ("resnet", {"channels": [100_000] * 4}),
        ("resnet", {"stem_width": 200_000}),
    ],
    ids=str,
)
def test_a_network_larger_than_its_weights_is_refused_before_it_is_built(model, arguments, request, tmp_path):
    good = request.getfixturevalue(model)
    config = json.loads((good / "config.json").read_text())
    config["classifier"]["arguments"] |= arguments
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").symlink_to(good / "model.safetensors")
    tokenstn.load(good)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ValueError, match=r"config\.json describes a model that cannot be built"):
        tokenstn.load(tmp_path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024  # kilobytes


@pytest.mark.parametrize(
    "change",
    [
        {"input_size": [10**6, 10**6]},
        {"input_size": [64, 64]},  # the network reads 32 × 32 alone
        {"localization_size": 10**6},
        {"localization_size": [16, 10**6]},
        {"preprocessing": {"size": [10**6, 1], "mean": [0.5], "std": [0.5], "resize": "crop", "crop_share": 1.0,
                           "interpolation": "bicubic"}},
    ],
    ids=str,
)  # fmt: skip
def test_images_of_a_size_that_nothing_reads_are_refused(change, vit, tmp_path):
    config = json.loads((vit / "config.json").read_text()) | change
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").symlink_to(vit / "model.safetensors")
    with pytest.raises(ValueError, match=r"config\.json (does not fit|describes a model that cannot)"):
        tokenstn.load(tmp_path)


def test_whole_numbers_in_the_place_of_weights_are_refused(vit, tmp_path):
    from safetensors.torch import load_file, save_file

    weights = load_file(vit / "model.safetensors")
    key = next(key for key in weights if key.endswith("head.bias"))
    save_file({**weights, key: weights[key].to(torch.int32)}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_bytes((vit / "config.json").read_bytes())
    with pytest.raises(ValueError, match=r"1 of another kind: .*head\.bias torch\.int32 instead of torch\.float32"):
        tokenstn.load(tmp_path)


def test_loading_in_one_thread_leaves_building_in_others_alone(vit):
    """The weights are counted in the thread that loads."""
    import threading

    stop, built = threading.Event(), []

    def build():
        while not stop.is_set():
            built.append(torch.nn.Linear(2000, 2000))
            del built[:-1]

    other = threading.Thread(target=build)
    other.start()
    try:
        for _ in range(3):
            tokenstn.load(vit)
    finally:
        stop.set()
        other.join()
    assert built


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("extends: itself\n", "'itself', which extends it in turn"),
        ("extends: other\n", "extends it in turn"),
        ("extends: ../../etc/passwd\n", "name a file beside it"),
        ("extends: /etc/passwd\n", "name a file beside it"),
        ("extends: [a]\n", "name a file beside it"),
        ("name: ../../evil\n", "it has no folder in it"),
        ("name: /tmp/evil\n", "it has no folder in it"),
    ],
)
def test_an_experiment_stays_in_its_folder(content, reason, tmp_path):
    settings = "title: t\ndata: {d: {source: digits}}\nmethods: {vanilla: {}}\norbits: {r: {group: rotation}}\n"
    (tmp_path / "itself.yaml").write_text(settings + content)
    (tmp_path / "other.yaml").write_text("extends: itself\n")
    with pytest.raises(ValueError, match=reason):
        read_experiment(str(tmp_path / "itself.yaml"))


def test_a_group_has_an_order_that_can_be_listed():
    assert len(group("rotation", 1000)) == 1000
    for name in ("rotation", "scale", "rotoscale", "shear_rotoscale"):
        with pytest.raises(ValueError, match="at most 1,000, got 1000000000000"):
            group(name, 10**12)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"quick": [1, 2]}, "quick is [1, 2]: expected a mapping"),
        ({"methods": "all"}, "methods is 'all': expected a mapping"),
        ({"methods": {"stn": {"recipe": {"rate": "x" * 10**5}}}}, "recipe.rate is 'xxx"),
        ({"methods": {"tokenstn": {"options": {"primitives": [[1] * 10**5]}}}}, "unknown primitive [1, 1"),
    ],
)
def test_a_wrong_part_of_an_experiment_gets_a_short_sentence(tmp_path, changes, sentence):
    path = tmp_path / "wrong.yaml"
    path.write_text(json.dumps({**drill("jobs").EXPERIMENT, **changes}), encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(sentence)) as refused:
        read_experiment(str(path), quick=True)
    assert len(str(refused.value)) < 1000
