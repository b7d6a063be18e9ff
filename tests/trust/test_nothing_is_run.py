"""No file that is given to the package runs code: not by its imports, and not when somebody tries."""

import ast
import inspect
import io
import json
import pickle
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from jsonargparse import ArgumentError

import tokenstn
from tokenstn import cli
from tokenstn.benchmark.files import read_experiment
from tokenstn.data import open_images
from tokenstn.evaluation.answers_file import load_answers
from tokenstn.models.checkpoint import convert

from .drills import drill

wild = drill("wild_configs")
SOURCE = Path(tokenstn.__file__).parent
FORBIDDEN_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "jsonpickle", "runpy"}
FORBIDDEN_CALLS = {
    "eval", "exec", "compile", "__import__", "os.system", "os.popen", "subprocess.run", "subprocess.Popen",
    "subprocess.call", "subprocess.check_output", "yaml.load", "yaml.unsafe_load", "yaml.full_load", "torch.hub.load",
    "torch.jit.load", "pd.read_pickle", "pandas.read_pickle", "np.load", "numpy.load", "torch.load",
    "importlib.import_module", "import_module", "torch.export.load", "torch.serialization.add_safe_globals",
}  # fmt: skip
# what is allowed, and with which words
SAFE_WORDS = {"torch.load": ("weights_only", True), "np.load": ("allow_pickle", False)}
EXCEPTIONS = {
    ("__init__.py", "import_module"),  # of the package's own rooms, by a table in that file
    ("inference/bundle_files/verify.py", "np.load"),  # numpy's own default is not to unpickle
    ("inference/export_check.py", "torch.export.load"),  # of the file that was written a moment ago
}


def called(node: ast.Call) -> str:
    """What a call is of, as it is written: ``np.load``."""
    parts, target = [], node.func
    while isinstance(target, ast.Attribute):
        parts.append(target.attr)
        target = target.value
    return ".".join(reversed([*parts, target.id])) if isinstance(target, ast.Name) else ""


def sources() -> list[tuple[str, ast.Module]]:
    return [(path.relative_to(SOURCE).as_posix(), ast.parse(path.read_text())) for path in SOURCE.rglob("*.py")]


def test_nothing_in_the_package_can_run_what_a_file_holds():
    found = []
    for name, tree in sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
                found += [(name, module) for module in modules if module.split(".")[0] in FORBIDDEN_MODULES]
            if isinstance(node, ast.Call):
                call = called(node)
                word, value = SAFE_WORDS.get(call, ("", None))
                safe = any(k.arg == word and getattr(k.value, "value", None) is value for k in node.keywords)
                if call in FORBIDDEN_CALLS and not safe and (name, call) not in EXCEPTIONS:
                    found.append((name, f"{call}, line {node.lineno}"))
                if any(k.arg == "trust_remote_code" or (k.arg == "shell" and k.value) for k in node.keywords):
                    found.append((name, f"{call} trusts or starts a shell, line {node.lineno}"))
                if any(k.arg == "weights_only" and getattr(k.value, "value", None) is not True for k in node.keywords):
                    found.append((name, f"{call} reads more than weights, line {node.lineno}"))
    assert found == []


def test_a_checkpoint_is_never_given_to_a_trainer_without_saying_how():
    """Lightning's own default would unpickle all of it."""
    for name, tree in sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and any(word.arg == "ckpt_path" for word in node.keywords):
                assert any(word.arg == "weights_only" for word in node.keywords), (name, node.lineno)


@pytest.fixture
def proof(tmp_path) -> Path:
    """What code that was run leaves behind; that it does so is tried first."""
    path = tmp_path / "executed"
    pickle.loads(wild.malicious_pickle(str(path)))["weights"].close()
    assert path.exists()
    path.unlink()
    return path


def objects_npz(proof: Path) -> bytes:
    file = io.BytesIO()
    names = (
        "x_train",
        "y_train",
        "x_test",
        "y_test",
        "format",
        "rows",
        "clusters",
        "labelled",
        "shape",
        "bare_correct",
    )
    thing = np.array([wild.Malicious(str(proof))], dtype=object)
    np.savez(file, allow_pickle=True, **dict.fromkeys((*names, "bare_predicted"), thing))
    return file.getvalue()


def torch_file(proof: Path) -> bytes:
    file = io.BytesIO()
    torch.save({"state_dict": wild.Malicious(str(proof))}, file)
    return file.getvalue()


@pytest.mark.parametrize("content", [lambda p: wild.malicious_pickle(str(p)), torch_file], ids=["pickle", "torch"])
@pytest.mark.parametrize("name", ["weights.pth", "weights.pt", "weights.safetensors", "weights.pth.tar", "weights.bin"])
def test_a_malicious_checkpoint_is_not_run(name, content, proof, tmp_path):
    (tmp_path / name).write_bytes(content(proof))
    with pytest.raises(ValueError, match=r"not a safetensors file|holds more than weights|not a checkpoint"):
        convert(tmp_path / name, "resnet10t")
    assert not proof.exists()


def test_a_malicious_model_folder_is_not_run(proof, tmp_path):
    folder = drill("small_model").saved_model(tmp_path / "model")
    for content in (wild.malicious_pickle(str(proof)), torch_file(proof)):
        (folder / "model.safetensors").write_bytes(content)
        with pytest.raises(ValueError, match="cannot be read"):
            tokenstn.load(folder)
    assert not proof.exists()


def test_a_malicious_checkpoint_of_a_run_is_not_run(proof, tmp_path):
    from tokenstn.training.checkpoints import WholeCheckpoints

    for content in (wild.malicious_pickle(str(proof)), torch_file(proof), b"", b"PK"):
        (tmp_path / "last.ckpt").write_bytes(content)
        for asked in (True, False, None):
            with pytest.raises(ValueError, match=r"last\.ckpt is not a checkpoint of this run"):
                WholeCheckpoints().load_checkpoint(tmp_path / "last.ckpt", weights_only=asked)
    assert not proof.exists()


@pytest.mark.parametrize("name", ["mnist.npz", "answers.npz"])
def test_malicious_arrays_are_not_run(name, proof, tmp_path):
    read = {"mnist.npz": lambda: open_images(tmp_path / name), "answers.npz": lambda: load_answers(tmp_path)}[name]
    for content in (objects_npz(proof), wild.malicious_pickle(str(proof))):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=rf"{name}"):
            read()
    assert not proof.exists()


def test_tags_of_yaml_are_not_followed(proof, tmp_path):
    for tag in ("object/apply:os.system", "object/new:builtins.open", "name:os.system", "module:evil"):
        (tmp_path / "a.yaml").write_text(f"title: !!python/{tag} ['touch {proof}']\n")
        with pytest.raises(ValueError, match=r"a\.yaml is not YAML: could not determine a constructor"):
            read_experiment(str(tmp_path / "a.yaml"))
    assert not proof.exists()


@pytest.fixture
def evil(proof, tmp_path, monkeypatch) -> str:
    """A module on the path that proves its import."""
    (tmp_path / "evil_module.py").write_text(
        f"open({str(proof)!r}, 'w').close()\nimport torch\n\nclass Net(torch.nn.Module):\n    pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    return "evil_module"


@pytest.mark.parametrize(
    "classifier",
    [
        {"class": "EVIL.Net"},
        {"library": "EVIL", "name": "Net", "arguments": {}},
        {"library": "timm", "name": "EVIL.Net", "arguments": {}},
        {"library": "torchvision", "name": "EVIL.Net", "arguments": {}},
        {"library": "timm", "name": "vit_tiny_patch16_224", "arguments": {"act_layer": "EVIL.Net"}},
        {"library": "timm", "name": "vit_tiny_patch16_224", "arguments": {"block_fn": "EVIL.Net"}},
        {"library": "timm", "name": "vit_tiny_patch16_224", "arguments": {"checkpoint_path": "x"}},
        {"library": "timm", "name": "hf-hub:someone/EVIL", "arguments": {}},
        {"library": "timm", "name": "local-dir:.", "arguments": {}},
        {"library": "timm", "name": "../EVIL", "arguments": {}},
    ],
    ids=str,
)
def test_a_model_folder_cannot_name_a_class_that_is_imported(classifier, evil, proof, tmp_path):
    folder = drill("small_model").saved_model(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    config["classifier"] = json.loads(json.dumps(classifier).replace("EVIL", evil))
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=r"which is not rebuilt from a file|cannot be built"):
        tokenstn.load(folder)
    assert not proof.exists() and evil not in sys.modules


verbs = dict(cli.COMMANDS)


@contextmanager
def exit_code_2():
    with pytest.raises(SystemExit) as refused:
        yield
    assert refused.value.code == 2


@pytest.mark.parametrize("verb", sorted(verbs))
def test_settings_of_a_command_cannot_name_a_class(verb, evil, proof, tmp_path, capsys, monkeypatch):
    """The parser knows how to make objects of classes that a file names, where a type asks for one; none does."""
    parser = cli._parser(verb)
    monkeypatch.setattr(cli, "_parser", lambda _: parser)  # it takes a while to make
    monkeypatch.setitem(cli.COMMANDS, verb, lambda **_: pytest.fail("these settings are none"))
    for name in inspect.signature(verbs[verb]).parameters:
        (tmp_path / "settings.yaml").write_text(json.dumps({name: {"class_path": f"{evil}.Net", "init_args": {}}}))
        with exit_code_2():
            raise SystemExit(cli.main([verb, f"--config={tmp_path / 'settings.yaml'}"]))
        with suppress(ArgumentError):  # a text is a text, for those that take one
            parser.parse_args([verb, f"--{name}={evil}.Net"])
    assert "Traceback" not in capsys.readouterr().err
    assert not proof.exists() and evil not in sys.modules


@pytest.mark.parametrize("location", ["../secret.bin", "/etc/hostname", "beside.bin"])
def test_an_exported_file_reads_no_other_file(location, tmp_path):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    (tmp_path / "inside").mkdir()
    for place in (tmp_path / "secret.bin", tmp_path / "inside" / "beside.bin"):
        place.write_bytes(bytes(4))
    tensor = onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT, dims=[1])
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    graph = onnx.helper.make_graph([], "g", [], [], initializer=[tensor])
    path = tmp_path / "inside" / "model.onnx"
    path.write_bytes(onnx.helper.make_model(graph).SerializeToString())
    with pytest.raises(ValueError, match="'w' are in another file, which is not read"):
        tokenstn.load(path)
