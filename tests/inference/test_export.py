"""A bundle: what is in it, that it runs without torch, and that nothing is left where it does not answer as PyTorch."""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from PIL import Image

import tokenstn
from tokenstn import TokenSTN
from tokenstn.data import read_image
from tokenstn.data.paths import IMAGE_SUFFIXES
from tokenstn.inference.bundle_pictures import embedded_pictures
from tokenstn.inference.export import export_model
from tokenstn.inference.export_check import script
from tokenstn.models import Preprocessing
from tokenstn.models.onnx import OnnxModel

from ..data.pictures import noise
from ..exported import made
from ..models.classifiers import PlainCNN, shake

SMALL = Preprocessing((16, 16), (0.4, 0.5, 0.6), (0.2, 0.3, 0.25), "pad", interpolation="bilinear")
# in front of a script, this makes every import of torch, and of this package, an error
BLOCKED = """import sys
class Guard:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "tokenstn", "torchvision", "onnx"):
            raise ImportError(f"{name} is not there")
sys.meta_path.insert(0, Guard())
import runpy
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def without_torch(script: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(script.parent)!r})\n{BLOCKED}", str(script)]
    return subprocess.run([*command, *arguments], capture_output=True, text=True)


def bare_model(**settings) -> TokenSTN:
    torch.manual_seed(0)
    given = {"preprocessing": SMALL, "input_size": (16, 16), "classes": tuple("abcde")}
    return TokenSTN(shake(PlainCNN()), (), **(given | settings)).eval()


# --- what is in it


def test_a_bundle_has_everything_that_it_needs():
    bundle = made().bundle
    names = {path.name for path in bundle.iterdir()}
    assert names == {"model.onnx", "bundle.json", "config.pbtxt", "predict.py", "verify.py", "golden"}
    description = json.loads((bundle / "bundle.json").read_text())
    for name, checksum in description["files"].items():
        assert hashlib.sha256((bundle / name).read_bytes()).hexdigest() == checksum
    assert set(description["files"]) >= names - {"bundle.json", "golden"}


def test_the_metadata_say_what_the_model_folder_says():
    graph = onnx.load(made().file)
    metadata = {item.key: json.loads(item.value) for item in graph.metadata_props}
    config = json.loads((made().folder / "config.json").read_text())
    for name in ("classes", "preprocessing", "primitives", "poses", "multi_label", "posterior"):
        assert metadata[name] == config[name], name
    weights = hashlib.sha256((made().folder / "model.safetensors").read_bytes()).hexdigest()
    assert metadata["weights_sha256"] == weights and metadata["tokenstn"] == tokenstn.__version__
    assert metadata["views"] == 4 and metadata["thresholds"]["settings"]["execution"] == "onnx"
    description = json.loads((made().bundle / "bundle.json").read_text())
    assert {name: description[name] for name in metadata} == metadata


def test_batch_height_and_width_are_free():
    graph = onnx.load(made().file).graph
    (photos,) = graph.input
    dims = [dim.dim_param or dim.dim_value for dim in photos.type.tensor_type.shape.dim]
    assert dims == ["batch", 1, "height", "width"] and photos.type.tensor_type.elem_type == onnx.TensorProto.UINT8
    for output in graph.output:
        assert output.type.tensor_type.shape.dim[0].dim_param == "batch", output.name


def test_triton_is_told_the_names_types_and_shapes_of_the_graph():
    graph = onnx.load(made().file).graph
    config = (made().bundle / "config.pbtxt").read_text()
    kinds = {onnx.TensorProto.FLOAT: "FP32", onnx.TensorProto.UINT8: "UINT8", onnx.TensorProto.BOOL: "BOOL"}
    for value in (*graph.input, *graph.output):
        tensor = value.type.tensor_type
        dims = [-1 if dim.dim_param else dim.dim_value for dim in tensor.shape.dim][1:]
        shape = f"dims: [ {', '.join(map(str, dims))} ]" if dims else "dims: [ 1 ] reshape: { shape: [ ] }"
        assert f'{{ name: "{value.name}" data_type: TYPE_{kinds[tensor.elem_type]} {shape} }}' in config
    assert config.count("name:") == 1 + len(graph.input) + len(graph.output)


# --- without torch


def test_verify_runs_without_torch_and_finds_all_well():
    done = without_torch(made().bundle / "verify.py")
    assert done.returncode == 0 and "answers as it should" in done.stdout, done.stderr
    assert "TOO FAR" not in done.stdout and "probabilities" in done.stdout


def test_verify_notices_other_answers_and_a_changed_file(tmp_path):
    bundle = shutil.copytree(made().bundle, tmp_path / "bundle")
    (bundle / "predict.py").write_text((bundle / "predict.py").read_text() + "\n")
    done = without_torch(bundle / "verify.py")
    assert done.returncode == 1 and "predict.py is not what was exported" in done.stdout
    expected = dict(np.load(bundle / "golden" / "expected.npz"))
    expected["0.png/probabilities"] = expected["0.png/probabilities"] + 0.001
    np.savez(bundle / "golden" / "expected.npz", **expected)
    description = json.loads((bundle / "bundle.json").read_text())
    (bundle / "bundle.json").write_text(json.dumps({**description, "files": {}}))
    done = without_torch(bundle / "verify.py")
    assert done.returncode == 1 and "too far from PyTorch: probabilities" in done.stdout


def test_predict_runs_without_torch_and_says_what_the_model_says(tmp_path):
    pictures = embedded_pictures()
    for name, content in pictures.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "broken.png").write_bytes(b"no image")
    files = [str(tmp_path / name) for name in (*pictures, "broken.png")]
    done = without_torch(made().bundle / "predict.py", *files, "--top", "2", "--threads", "1")
    *lines, broken = map(json.loads, done.stdout.splitlines())
    assert done.returncode == 1 and "cannot be read" in broken["error"] and broken["path"] == files[-1]
    model = tokenstn.load(made().file)
    for line, path in zip(lines, files[:-1], strict=True):
        photo = read_image(path, 1)
        prepared = model.preprocessing
        images = tokenstn.data.fit(photo, prepared.size, prepared.resize, prepared.crop_share, prepared.interpolation)
        with torch.no_grad():
            said = model(tokenstn.data.to_float(images[None], prepared.mean, prepared.std))
        best = said.probabilities[0].topk(2)
        assert [entry["class"] for entry in line["top"]] == [model.classes[k] for k in best.indices]
        assert line["probability"] == pytest.approx(best.values[0].item(), abs=1e-4)
        assert line["rotation_deg"] == pytest.approx(said.pose.rotation.rad2deg().item(), abs=0.1)
        assert line["scale"] == pytest.approx(said.pose.scale.item(), abs=1e-3)
        assert line["class_uncertain"] == said.class_uncertain.item()
        assert line["pose_ambiguous"] == said.pose_ambiguous.item()
        assert line["views"] == 4 and line["poses"] == "absolute"


def test_predict_takes_folders_and_names_what_it_could_not_read(tmp_path):
    content = next(iter(embedded_pictures().values()))
    photos, empty = tmp_path / "photos", tmp_path / "empty"
    (photos / "more").mkdir(parents=True)
    empty.mkdir()
    for place in ("b.png", "a.PNG", "more/c.png"):
        (photos / place).write_bytes(content)
    (photos / "notes.txt").write_text("no image")
    (photos / "z.jpg").write_bytes(b"no image")
    gone = tmp_path / "gone.png"
    done = without_torch(made().bundle / "predict.py", str(photos), str(empty), str(gone), "--threads", "1")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    wanted = [photos / place for place in ("a.PNG", "b.png", "more/c.png", "z.jpg")]
    assert [line["path"] for line in lines] == [*map(str, wanted), str(empty), str(gone)] and done.returncode == 1
    assert [line.get("error") for line in lines[:3]] == [None] * 3
    broken, folder, missing = (line["error"] for line in lines[3:])
    assert str(photos / "z.jpg") in broken and "not an image" in broken and "BytesIO" not in broken
    assert folder == f"{empty} is a folder without images" and missing == f"there is no file {gone}"


def test_predict_looks_for_the_same_files_as_the_package():
    assert script("predict").SUFFIXES == IMAGE_SUFFIXES


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16", "LAB", "PA", "turned"])
def test_the_script_reads_files_of_every_mode_as_the_product_does(tmp_path, mode, channels):
    path = tmp_path / "image.tif"
    if mode == "I;16":
        Image.fromarray((300 * np.arange(63, dtype=np.uint16)).reshape(9, 7)).save(path)
    elif mode == "turned":
        path.write_bytes(embedded_pictures()["turned.png"])
    else:
        Image.fromarray(noise(9, 7, 4)).convert(mode).save(path, "png" if mode in ("P", "LA", "RGBA") else "tiff")
    np.testing.assert_array_equal(script("predict").read_photo(path, channels), read_image(path, channels).numpy())


@pytest.mark.parametrize("values", [np.float32([[0.5]]), np.int32([[70000]])])
def test_pixels_of_unknown_range_are_refused_by_both(tmp_path, values):
    path = tmp_path / "image.tif"
    Image.fromarray(values).save(path)
    with pytest.raises(ValueError, match="8 or 16"):
        read_image(path, 1)
    with pytest.raises(ValueError, match="8 or 16"):
        script("predict").read_photo(path, 1)


# --- what is refused


def test_an_export_that_does_not_answer_as_pytorch_is_refused_and_leaves_nothing(tmp_path, monkeypatch):
    model = bare_model()
    monkeypatch.setattr("tokenstn.inference.export_check.fit", lambda photo, size, *_: photo[:, :16, :16])
    with pytest.raises(ValueError, match=r"does not answer as PyTorch does on 5 images.*nothing was written"):
        export_model(model, tmp_path / "out", formats=("pt2",))
    assert not list(tmp_path.iterdir())


def test_a_bundle_is_replaced_only_when_asked_and_nothing_else_ever(tmp_path):
    with pytest.raises(FileExistsError, match="--overwrite=true"):
        export_model(bare_model(), made().bundle)
    other = tmp_path / "photos"
    other.mkdir()
    (other / "dear.jpg").write_text("a photo")
    with pytest.raises(FileExistsError, match="something else"):
        export_model(bare_model(), other, overwrite=True)
    assert [path.name for path in other.iterdir()] == ["dear.jpg"]


@pytest.mark.parametrize(
    ("change", "settings", "sentence"),
    [
        ({"preprocessing": None}, {}, "preprocessing=tokenstn.Preprocessing"),
        ({}, {"views": 0}, "a number from 1 up"),
        ({}, {"formats": ("onyx",)}, "onnx, pt2, or both"),
        ({}, {"tolerance": 0.0}, "above 0"),
        ({}, {"pictures": {}}, "there are none"),
        ({}, {"formats": ("pt2",), "calibrate": lambda model: None}, "export that format too"),
    ],
)
def test_what_cannot_be_exported_gets_a_sentence(tmp_path, change, settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        export_model(bare_model(**change), tmp_path / "out", **settings)
    assert not list(tmp_path.iterdir())


def test_a_model_in_half_precision_is_refused(tmp_path):
    with pytest.raises(ValueError, match="in float32"):
        export_model(bare_model().half(), tmp_path / "out")


def test_an_exported_file_is_not_exported_again(tmp_path):
    with pytest.raises(ValueError, match="exported file already"):
        export_model(tokenstn.load(made().file), tmp_path / "out")


# --- other kinds of models


def test_a_classifier_alone_with_several_labels_from_python_in_both_formats(tmp_path, capsys):
    model = bare_model(multi_label=True)
    Image.effect_noise((40, 31), 90).convert("RGB").save(tmp_path / "noise.png")
    done = tokenstn.export(model, str(tmp_path / "out"), format="both", images=str(tmp_path / "noise.png"))
    assert "flags       none: they have to be calibrated for ONNX; give --data" in capsys.readouterr().out
    assert set(done.differences) == {"onnx", "pt2"} and done.info.views is None
    assert all(gaps.keys() == {"probabilities"} for gaps in done.differences.values())
    assert max(gap for gaps in done.differences.values() for gap in gaps.values()) < 1e-6
    loaded, images = tokenstn.load(done.out / "model.onnx"), torch.randn(3, 3, 16, 16)
    with torch.no_grad():
        torch.testing.assert_close(loaded(images).probabilities, model(images).probabilities, atol=1e-6, rtol=0)
        program = torch.export.load(done.out / "model.pt2").module()
        photos = torch.randint(256, (2, 3, 21, 50), dtype=torch.uint8)
        assert program(photos)["probabilities"].shape == (2, 5)
    assert isinstance(loaded, OnnxModel) and loaded.multi_label and loaded.bare and loaded.info == done.info
    line = json.loads(without_torch(done.out / "predict.py", str(tmp_path / "noise.png")).stdout)
    assert isinstance(line["prediction"], list) and "rotation_deg" not in line and line["class_uncertain"] is None
