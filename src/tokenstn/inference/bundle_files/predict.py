"""What this exported model says about image files, one line of JSON for each.

    python predict.py photo.jpg more/*.png folder/ > answers.jsonl

Needs numpy, pillow and onnxruntime, and nothing else. ``model.onnx`` takes photos of any size, uint8 (batch, channels,
height, width), all of one size in a batch: resizing and normalisation are inside. What it wants done before is in
``read_photo``. Its metadata, and ``bundle.json``, say what goes in and what comes out.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps

HERE = Path(__file__).parent
MODEL = "model.onnx"
# not all that Pillow knows: for EPS it would start another program
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "TIFF", "WEBP", "AVIF", "JPEG2000", "PPM")
SUFFIXES = (
    ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".avif", ".jp2",
    ".ppm", ".pgm", ".pbm", ".pnm",
)  # fmt: skip

Outputs = Mapping[str, Any]  # arrays by name, the batch first


def open_model(path: Path, threads: int = 0) -> tuple[Any, dict[str, Any]]:
    """A session of onnxruntime, and what the file says about itself; 0 threads are as many as there are cores."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    metadata = session.get_modelmeta().custom_metadata_map
    return session, {key: json.loads(value) for key, value in metadata.items()}


def read_photo(source: Path | bytes, channels: int) -> np.ndarray:
    """An image file as uint8 (channels, height, width): turned as its EXIF tag says, transparency on white.

    16 bits are scaled to 8 by their full range, colour becomes grey by luma, and of several frames the first is read.
    """
    content = source if isinstance(source, bytes) else source.read_bytes()
    image = Image.open(io.BytesIO(content), formats=FORMATS)
    image.load()
    image = ImageOps.exif_transpose(image)
    if image.mode == "F":
        raise ValueError("floating-point pixels have no known range; save it with 8 or 16 bits")
    if image.mode.startswith("I"):
        values = np.asarray(image).astype(np.int32)
        if values.min() < 0 or values.max() > 65535:
            raise ValueError("its pixels have more than 16 bits; save it with 8 or 16")
        image = Image.fromarray(((values * 255 + 32767) // 65535).astype(np.uint8))
    elif image.has_transparency_data:
        opaque = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", opaque.size, "white"), opaque).convert("RGB")
    elif image.mode not in ("L", "RGB", "1"):
        image = image.convert("RGB")
    pixels = np.array(image.convert("L" if channels == 1 else "RGB"), dtype=np.uint8)
    return pixels[None] if channels == 1 else np.ascontiguousarray(pixels.transpose(2, 0, 1))


def run(session: Any, photos: np.ndarray) -> dict[str, np.ndarray]:
    """All outputs for photos uint8 (batch, channels, height, width)."""
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"photos": photos}), strict=True))


def describe(outputs: Outputs, about: dict[str, Any], size: tuple[int, int], top: int = 5) -> dict[str, Any]:
    """The first image of a batch for people: degrees, and pixels of the photo, whose height and width are ``size``."""
    probabilities = outputs["probabilities"][0]
    names = about["classes"] or [str(k) for k in range(len(probabilities))]
    order = np.argsort(-probabilities, kind="stable")[:top]
    answer: dict[str, Any] = {"prediction": names[order[0]], "probability": float(probabilities[order[0]])}
    if about["multi_label"]:
        sure = np.maximum(probabilities, 1 - probabilities)
        labels = [name for name, share in zip(names, probabilities, strict=True) if share > 0.5]
        answer = {"prediction": labels, "probability": float(sure.mean())}
    answer["top"] = [{"class": names[k], "probability": float(probabilities[k])} for k in order]
    answer |= _pose({name: values[0] for name, values in outputs.items()}, about, min(size) / 2)
    for flag in ("pose_ambiguous", "class_uncertain"):
        answer[flag] = bool(outputs[flag][0]) if flag in outputs else None
    return answer


def _pose(said: Outputs, about: dict[str, Any], half: float) -> dict[str, Any]:
    """How the object lies in the photo. Where it is mirrored, it was turned first and then seen in a mirror."""
    if not about["primitives"]:
        return {}
    found: dict[str, Any] = {"poses": about["poses"]}
    mirrored = bool(said.get("reflection", 1) < 0)
    if "rotation" in said or mirrored:
        turn = float(said.get("rotation", 0.0)) + math.pi * mirrored
        found["rotation_deg"] = math.degrees(math.remainder(turn, 2 * math.pi))
    if "rotation" in said:
        found["rotation_spread_deg"] = math.degrees(said["spread_rotation"])
    for name in (key.removeprefix("spread_") for key in said if key.startswith("spread_")):
        if name not in ("rotation", "translation", "reflection"):  # those have units of their own
            found |= {name: float(said[name]), f"{name}_spread": float(said[f"spread_{name}"])}
    if "translation" in said:
        found["translation_px"] = [half * float(shift) for shift in said["photo_pose"][:2, 2]]
    if "reflection" in said:
        found["mirrored"] = mirrored
    prefix = "entropy_"
    found["entropy"] = {key[len(prefix) :]: float(said[key]) for key in said if key.startswith(prefix)}
    return {**found, "disagreement": float(said["disagreement"]), "views": int((said["view_weights"] > 0).sum())}


def uncalibrated(about: dict[str, Any]) -> list[str]:
    """The flags that say nothing about an image, because they are raised on all."""
    limits = about["thresholds"] or {}
    parts = {"class_uncertain": limits.get("of_class"), "pose_ambiguous": limits.get("of_pose")}
    return [flag for flag, part in parts.items() if part is not None and part["threshold"] is None]


def images_of(path: Path) -> list[Path]:
    """The images in a folder, at any depth and sorted; any other path as it is, and so a folder without images."""
    found = path.rglob("*") if path.is_dir() else ()
    return sorted(p for p in found if p.suffix.lower() in SUFFIXES and not p.name.startswith(".")) or [path]


def why_not(path: Path, error: Exception) -> str:
    """Why there is no answer for a path, for people."""
    if path.is_dir():
        return f"{path} is a folder without images"
    if not path.exists():
        return f"there is no file {path}"
    broken = "it is not an image in a format that is read, or its header is broken"
    return f"{path} cannot be read: {broken if isinstance(error, Image.UnidentifiedImageError) else error}"


def main() -> int:
    """Exit code 0, or 1 where a file could not be read; its line says why."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("images", nargs="+", type=Path, help="image files, and folders of them")
    parser.add_argument("--model", type=Path, default=HERE / MODEL)
    parser.add_argument("--top", type=int, default=5, help="classes in an answer")
    parser.add_argument("--threads", type=int, default=0, help="0: as many as there are cores")
    given = parser.parse_args()
    session, about = open_model(given.model, given.threads)
    for flag in uncalibrated(about):
        print(f"{flag} is raised on every image: no threshold could be set for it", file=sys.stderr)
    # an encoding without some letters of a name would end this
    anything_prints = sys.stdout is None or sys.stdout.encoding.lower().startswith("utf")
    failed = False
    for path in (image for named in given.images for image in images_of(named)):
        # bytes of a name that are no text become escapes, which can be printed everywhere
        line: dict[str, Any] = {"path": str(path).encode(errors="backslashreplace").decode()}
        try:
            photo = read_photo(path, len(about["preprocessing"]["mean"]))
            line |= describe(run(session, photo[None]), about, (photo.shape[1], photo.shape[2]), given.top)
        except Exception as error:  # decoders of broken files raise whatever they stumble over
            line["error"], failed = why_not(path, error), True
        print(json.dumps(line, ensure_ascii=not anything_prints), flush=True)
    return int(failed)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:  # whoever reads has seen enough, as head does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
