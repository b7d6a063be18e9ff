"""The kinds of documents that ``configs.py`` tries: how a good one is made, its mutants, and who reads them."""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
import wild_configs as wild
from small_model import SIDE, small_model

ROOT = Path(os.environ.get("TOKENSTN_DRILL_ROOT", ".")).resolve()
EXPORTED = ROOT / "tests" / "trust" / "releases" / "0.1.0" / "exported.zip"
MAKING = 128  # bytes of an npy file before its numbers

Prepared = tuple[Iterable[Any], Callable[[Any], None]]  # the mutants, and what is done with each


@dataclass(frozen=True)
class Kind:
    """count: how many mutants a whole drill has. prepare: from a folder to write to, and a count."""

    count: int
    prepare: Callable[[Path, int], Prepared]


def model_folder(place: Path) -> Path:
    """A good model folder, with thresholds, loaded once so that all libraries are there."""
    import tokenstn

    model = small_model()
    model.thresholds = some_thresholds()
    model.save_pretrained(place / "model")
    tokenstn.load(place / "model")
    return place / "model"


def some_thresholds() -> Any:
    """Thresholds as training finds them."""
    from tokenstn.models import Thresholds

    promise = {
        "failure": "wrong", "target_risk": 0.05, "confidence": 0.95, "images": 100, "accepted": 80, "errors": 0,
        "bound": 0.037, "assumptions": "images like these",
    }  # fmt: skip
    combination = {
        "names": ["confidence", "predictive_entropy"], "transforms": ["log", "identity"], "means": [-2.0, 0.1],
        "stds": [0.5, 0.7], "weights": [0.9, 0.8], "intercept": -0.3,
    }  # fmt: skip
    settings = small_model().call_settings()
    document = {
        "of_class": {"combination": combination, "threshold": 1.2, "guarantee": promise},
        "of_pose": {"primitives": ["rotation"], "threshold": 0.97, "guarantee": promise},
        "settings": json.loads(json.dumps(settings, default=vars)),
    }
    return Thresholds.from_json(document)


def config_json(place: Path, count: int) -> Prepared:
    """``config.json`` of a model folder; what loads is also asked for an answer."""
    folder = model_folder(place)
    document = json.loads((folder / "config.json").read_text(encoding="utf-8"))

    def attempt(content: bytes) -> None:
        (folder / "config.json").write_bytes(content)
        _answer(folder)

    return chain(wild.json_bombs().values(), wild.json_mutants(document, count)), attempt


def declared_sizes(place: Path, count: int) -> Prepared:
    """Numbers in ``config.json`` that are far too large, one or two at a time."""
    folder = model_folder(place)
    good = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    arguments = ("num_classes", "img_size", "patch_size", "embed_dim", "depth", "num_heads", "mlp_ratio", "in_chans")
    others = ("reg_tokens", "window_size", "depths", "layers", "channels", "drop_path_rate", "init_values")

    def mutants() -> Iterator[bytes]:
        for index in range(count):
            chance = random.Random(index)
            document = json.loads(json.dumps(good))
            for _ in range(chance.choice((1, 2))):
                number: Any = chance.choice(
                    (0, 2**10, 10**4, 10**5, 2 * 10**5, 10**6, 10**9, 10**12, 2**63, -(10**6), 1e300)
                )
                value = chance.choice((number, [number, number]))
                if chance.random() < 0.7:
                    document["classifier"]["arguments"][chance.choice(arguments + others)] = value
                else:
                    where = chance.choice(
                        ("input_size", "localization_size", "shared", "auto", "preprocessing", "primitives")
                    )
                    document[where] = {
                        "auto": {"mass": 0.9, "most": number},
                        "preprocessing": {**document["preprocessing"], "size": value},
                        "primitives": [{"kind": "rotation", "bound": number}] * chance.choice((1, 1000)),
                    }.get(where, value)
            yield json.dumps(document).encode()

    def attempt(content: bytes) -> None:
        (folder / "config.json").write_bytes(content)
        _answer(folder)

    return mutants(), attempt


def safetensors(place: Path, count: int) -> Prepared:
    """``model.safetensors`` of a model folder."""
    folder = model_folder(place)
    path = folder / "model.safetensors"
    content = path.read_bytes()

    def attempt(mutant: bytes) -> None:
        path.write_bytes(mutant)
        _answer(folder)

    pickles = [
        wild.malicious_pickle("executed"),
        b"PK\x03\x04" + wild.malicious_pickle("executed"),
        b"",
        content + b"\0",
    ]
    return chain(pickles, wild.safetensors_mutants(content, count)), attempt


def reference_json(place: Path, count: int) -> Prepared:
    """``reference.json`` beside a model, as the server reads and shows it."""
    from tokenstn.apps.metrics import Metrics
    from tokenstn.apps.reference import Reference, edges_of

    quantities = ("rotation_deg", "scale", "probability", "views", "entropy_rotation", "pose_ambiguous")
    shares = {name: [1 / (len(edges_of(name)) + 1)] * (len(edges_of(name)) + 1) for name in quantities}
    path = Reference(100, "drill, val", shares, {"ash": 0.5, "elm": 0.5}).write(place)
    document = json.loads(path.read_text(encoding="utf-8"))

    def attempt(content: bytes) -> None:
        path.write_bytes(content)
        Metrics(("ash", "elm"), ("rotation", "scale"), Reference.read(place)).page()

    return chain(wild.json_bombs().values(), wild.json_mutants(document, count)), attempt


def metrics_json(place: Path, count: int) -> Prepared:
    """``metrics.json`` of an evaluation, as ``tokenstn compare`` reads it, and around a model, for its card."""
    import tokenstn
    from tokenstn.evaluation.metrics_json import to_json
    from tokenstn.verbs.compare import read_evaluation

    folder = model_folder(place)
    sys.path.insert(0, str(ROOT))
    from tests.reports.evaluations import rectified  # one as a run could leave it

    document = {"schema": "tokenstn.run/1", "evaluation": to_json(rectified())}

    def attempt(content: bytes) -> None:
        (place / "metrics.json").write_bytes(content)
        tokenstn.load(folder).generate_model_card()
        read_evaluation(place)

    return chain(wild.json_bombs().values(), wild.json_mutants(document, count)), attempt


def experiment_yaml(place: Path, count: int) -> Prepared:
    """The YAML of experiments, those that are shipped."""
    import yaml

    from tokenstn.benchmark.files import read_experiment

    shipped = [
        yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted((ROOT / "experiments").glob("*.yaml"))
    ]
    path = place / "itself.yaml"

    def mutants() -> Iterator[bytes]:
        yield from wild.yaml_bombs().values()
        for index in range(count):
            chance = random.Random(index)
            document = chance.choice(shipped)
            if index % 3 == 0:
                yield wild.as_bytes(chance, yaml.safe_dump(document).encode())
                continue
            yield json.dumps(wild.changed(chance, document)).encode("utf-8", errors="surrogatepass")  # JSON is YAML

    def attempt(content: bytes) -> None:
        path.write_bytes(content)
        read_experiment(str(path), quick=len(content) % 2 == 0)

    return mutants(), attempt


def onnx_bytes(place: Path, count: int) -> Prepared:
    """An exported file with changed bytes, or one that asks for other files."""
    content, attempt = _exported(place)
    chances = (random.Random(index) for index in range(count))
    return chain(_lying_graphs(content), (wild.as_bytes(chance, content) for chance in chances)), attempt


def onnx_metadata(place: Path, count: int) -> Prepared:
    """What an exported file says about itself."""
    import onnx

    content, attempt = _exported(place)
    graph = onnx.load_from_string(content)
    metadata = {item.key: item.value for item in graph.metadata_props}

    def mutants() -> Iterator[bytes]:
        for mutant in wild.metadata_mutants(metadata, count):
            del graph.metadata_props[:]
            for key, value in mutant.items():
                graph.metadata_props.add(key=key, value=value.encode("utf-8", errors="replace").decode())
            yield graph.SerializeToString()

    return mutants(), attempt


def npz(place: Path, count: int) -> Prepared:
    """Arrays in one file, as MNIST and as the answers of an evaluation have them, pickled objects among them."""
    from tokenstn.data import open_images

    chance = np.random.default_rng(0)
    digits = {"x": chance.integers(0, 255, (10, 28, 28)).astype(np.uint8), "y": np.arange(10)}
    good = {f"{what}_{split}.npy": _npy(digits[what]) for split in ("train", "test") for what in "xy"}
    path = place / "mnist.npz"

    def attempt(content: bytes) -> None:
        path.write_bytes(content)
        open_images(path).read(0)

    attempt(_archive(good))
    return (_archive_mutant(random.Random(index), good) for index in range(count)), attempt


def checkpoint(place: Path, count: int) -> Prepared:
    """Foreign checkpoints, which are pickles, as ``tokenstn convert`` reads them."""
    import timm

    from tokenstn.models.checkpoint import convert

    path = place / "weights.pth"
    file = io.BytesIO()
    torch.save({"state_dict": timm.create_model("resnet10t", num_classes=3).state_dict()}, file)

    def attempt(content: bytes) -> None:
        path.write_bytes(content)
        convert(path, "resnet10t", out=place / "converted")
        shutil.rmtree(place / "converted")

    attempt(file.getvalue())
    pickles = io.BytesIO()
    torch.save({"state_dict": wild.Malicious("executed")}, pickles)
    chances = (random.Random(index) for index in range(count))
    mutants = (wild.as_bytes(chance, file.getvalue()) for chance in chances)
    return chain([wild.malicious_pickle("executed"), pickles.getvalue()], mutants), attempt


def command_line_configs() -> dict[str, bytes]:
    """Files for ``--config``: what the parser of the command line could be talked into."""
    evil = {"class_path": "evil.Class", "init_args": {}}
    return {
        "a class for the model": json.dumps({"model": evil, "images": "x"}).encode(),
        "a class for the images": json.dumps({"model": "x", "images": evil}).encode(),
        "a function": json.dumps({key: {"class_path": "evil.function"} for key in ("model", "top")}).encode(),
        "a class for options": json.dumps(dict.fromkeys(("views", "out", "accelerator", "devices"), evil)).encode(),
        **{name: content for name, content in wild.yaml_bombs().items() if name not in ("empty", "itself")},
    }


def _answer(folder: Path) -> None:
    """Load a model and ask it once: what is loaded works, or refuses in its own words."""
    import tokenstn

    model = tokenstn.load(folder)
    with torch.no_grad():
        model(torch.zeros(1, 3, SIDE, SIDE))


def _exported(place: Path) -> tuple[bytes, Callable[[bytes], None]]:
    import tokenstn

    with zipfile.ZipFile(EXPORTED) as archive:
        archive.extractall(place)
    path = place / "model.onnx"
    content = path.read_bytes()

    def attempt(mutant: bytes) -> None:
        path.write_bytes(mutant)
        model = tokenstn.load(path)
        assert model.preprocessing is not None
        with torch.no_grad():
            model(torch.zeros(1, len(model.preprocessing.mean), *model.preprocessing.size))

    attempt(content)
    return content, attempt


def _lying_graphs(content: bytes) -> Iterator[bytes]:
    """Graphs whose numbers are in other files, or not as many as they say."""
    import onnx

    for location in ("../../../../etc/passwd", "/etc/passwd", "beside.bin", "http://127.0.0.1:9/x"):
        graph = onnx.load_from_string(content)
        tensor = graph.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=location)
        yield graph.SerializeToString()
    for dims in ([2**31, 2**31], [-1], [10**12]):
        graph = onnx.load_from_string(content)
        del graph.graph.initializer[0].dims[:]
        graph.graph.initializer[0].dims.extend(dims)
        yield graph.SerializeToString()
    graph = onnx.load_from_string(content)
    graph.graph.node[0].domain, graph.graph.node[0].op_type = "evil", "Class"
    yield graph.SerializeToString()


def _npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=array.dtype == object)
    return file.getvalue()


def _archive(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return file.getvalue()


def _archive_mutant(chance: random.Random, good: dict[str, bytes]) -> bytes:
    members = dict(good)
    name = chance.choice(list(members))
    what = chance.choice(("bytes", "member", "head", "array", "gone", "objects"))
    if what == "member":
        members[name] = wild.as_bytes(chance, members[name])
    elif what == "head":
        kind = chance.choice(("|u1", "<f8", "<i8", "|O", "<U4", "|V8", "<c16", "<M8[s]", "x"))
        shape = chance.choice(
            ("()", "(0,)", "(10,)", "(-1,)", f"({10**12},)", f"({2**31}, {2**31})", "(10, 28)", "[3]", "(1.5,)")
        )
        head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(MAKING - 11) + "\n"
        members[name] = b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode() + members[name][MAKING:]
    elif what == "array":
        members[name] = _npy(
            np.zeros(chance.choice(((), (0,), (10,), (10, 28, 28), (2, 2, 2))), chance.choice(("u1", "f4", "bool")))
        )
    elif what == "gone":
        del members[name]
    elif what == "objects":
        members[name] = _npy(np.array([wild.Malicious("executed")], dtype=object))
    content = _archive(members)
    return wild.as_bytes(chance, content) if what == "bytes" else content


KINDS = {
    "config.json of a model folder": Kind(1500, config_json),
    "sizes declared in config.json": Kind(300, declared_sizes),
    "model.safetensors": Kind(1500, safetensors),
    "an exported model.onnx": Kind(400, onnx_bytes),
    "the metadata of model.onnx": Kind(400, onnx_metadata),
    "reference.json": Kind(900, reference_json),
    "metrics.json": Kind(400, metrics_json),
    "the YAML of an experiment": Kind(900, experiment_yaml),
    "an npz file of images": Kind(900, npz),
    "a foreign checkpoint": Kind(300, checkpoint),
}
