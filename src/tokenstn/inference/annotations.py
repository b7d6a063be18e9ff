"""COCO annotations moved along with the photos that they belong to: boxes, polygons, masks and key points.

What leaves the picture is cut off at its edge; an annotation of which nothing is left goes. A turned box becomes the
upright one around it, or the one around its outline where it has one. Names such as "left eye" stay with their points,
also where a photo was mirrored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, TypeGuard

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tokenstn.geometry import invert
from tokenstn.inference.polygons import area, clip
from tokenstn.inference.rectify import Correction
from tokenstn.inference.rle import decode_mask, encode_mask
from tokenstn.inference.tiles import frame_of, warp_tiled
from tokenstn.system.documents import read_json

MOST_BYTES = 2**33  # of a COCO file, which may hold millions of outlines

Coco = dict[str, Any]
Points = NDArray[np.float64]


@dataclass(frozen=True)
class Moved:
    """The annotations of the results, and how many of how many had left the picture."""

    coco: Coco
    gone: int
    total: int


def read_coco(path: Path) -> Coco:
    """A COCO file with images and annotations."""
    try:
        coco = read_json(path, MOST_BYTES)
    except FileNotFoundError:
        raise ValueError(f"there is no file {path}") from None
    right = isinstance(coco, dict) and all(isinstance(coco.get(key), list) for key in ("images", "annotations"))
    if not right or not all(
        isinstance(image, dict) and {"id", "file_name"} <= image.keys() for image in coco["images"]
    ):
        raise ValueError(
            f"{path} is no COCO file: it needs a list of images, with id and file_name, and of annotations"
        )
    for number, annotation in enumerate(coco["annotations"], start=1):
        wrong = _mistake(annotation)
        if wrong:
            raise ValueError(f"{path}: annotation {number} has {wrong}")
    return coco


def _mistake(annotation: Any) -> str:
    """What is no box, outline or key point of COCO in an annotation; nothing where all is well."""
    if not isinstance(annotation, dict):
        return "no names and values"
    box, points, outline = (annotation.get(name) or [] for name in ("bbox", "keypoints", "segmentation"))
    if box and not (_are_numbers(box) and len(box) == 4):
        return f"the bbox {box}: give x, y, width and height"
    if not (_are_numbers(points) and len(points) % 3 == 0):
        return "keypoints that are not x, y and v in turns"
    if isinstance(outline, dict):
        size, counts = outline.get("size"), outline.get("counts")
        well = _are_numbers(size) and len(size) == 2 and (isinstance(counts, str) or _are_numbers(counts))
        return "" if well else "a mask without size (height and width) and counts"
    polygons = outline
    if not isinstance(polygons, list) or not all(_are_numbers(p) and len(p) % 2 == 0 for p in polygons):
        return "a segmentation whose polygons are not x and y in turns"
    return ""


def _are_numbers(values: Any) -> TypeGuard[list[float]]:
    return isinstance(values, list) and all(isinstance(value, int | float) for value in values)


def require_known(coco: Coco, names: Iterable[str], path: Path) -> None:
    """Refuse annotations of which none is of these images."""
    wanted = {_plain(image["file_name"]) for image in coco["images"]}
    if not any(name in wanted or PurePosixPath(name).name in wanted for name in names):
        raise ValueError(
            f"{path} is of other images: it names {coco['images'][0]['file_name'] if coco['images'] else 'none'}; "
            "file_name is the path of an image inside the folder, or its name"
        )


def move_annotations(coco: Coco, corrections: Iterable[Correction]) -> Moved:
    """The annotations of the photos that were corrected, in the pixels of the results; others are left out."""
    by_name = _by_name(corrections)
    found, images = {}, []
    for image in coco["images"]:
        done = by_name.get(_plain(image["file_name"]))
        if done is not None:
            found[image["id"]] = done
            size = {"width": done.output_width, "height": done.output_height}
            images.append({**image, "file_name": done.file, **size})
    given = {image["id"]: (image.get("width"), image.get("height")) for image in coco["images"]}
    moved, total = [], 0
    for annotation in coco["annotations"]:
        done = found.get(annotation.get("image_id"))
        if done is None:
            continue
        total += 1
        to_seen = _to_seen(given[annotation["image_id"]], done)
        after = _move(annotation, invert(done.reads) @ to_seen, done)
        moved += [] if after is None else [after]
    return Moved({**coco, "images": images, "annotations": moved}, total - len(moved), total)


def _move(annotation: Mapping[str, Any], matrix: Tensor, done: Correction) -> dict[str, Any] | None:
    """An annotation under a map of pixels, cut off at the edges of the result; None when nothing is left."""
    width, height = done.output_width, done.output_height
    after = dict(annotation)
    outlines: list[Points] = []
    segmentation = annotation.get("segmentation")
    if isinstance(segmentation, Mapping):
        mask = _move_mask(decode_mask(dict(segmentation)), matrix, (height, width))
        if not mask.any():
            return None
        after["segmentation"] = encode_mask(mask, isinstance(segmentation["counts"], str))
        after["area"] = int(mask.sum())
        rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
        outlines = [np.array([[columns[0], rows[0]], [columns[-1] + 1, rows[-1] + 1]], dtype=np.float64)]
    elif segmentation:
        polygons = (clip(_move_points(np.reshape(flat, (-1, 2)), matrix), width, height) for flat in segmentation)
        outlines = [polygon for polygon in polygons if len(polygon) > 2 and area(polygon) > 0]
        if not outlines:
            return None
        after["segmentation"] = [_rounded(polygon.ravel()) for polygon in outlines]
        after["area"] = round(sum(map(area, outlines)), 2)
    elif annotation.get("bbox"):
        x, y, w, h = annotation["bbox"]
        corners = np.array([[x, y], [x + w, y], [x + w, y + h], [x, y + h]], dtype=np.float64)
        turned = _move_points(corners, matrix)
        left = clip(turned, width, height)
        if len(left) < 3 or area(left) == 0:
            return None
        outlines = [left]
        if annotation.get("area") is not None:  # of what it is drawn around, of which as much has left as of the box
            after["area"] = round(float(annotation["area"]) * area(left) / area(corners), 2)
    if annotation.get("bbox") and outlines:
        low, high = np.concatenate(outlines).min(0), np.concatenate(outlines).max(0)
        if (high <= low).any():
            return None
        after["bbox"] = _rounded(np.concatenate((low, high - low)))
    if annotation.get("keypoints"):
        after["keypoints"], after["num_keypoints"] = _move_keypoints(annotation["keypoints"], matrix, width, height)
        if not outlines and after["num_keypoints"] == 0:
            return None
    return after


def _move_points(points: Any, matrix: Tensor) -> Points:
    linear, shift = matrix[:2, :2].numpy(), matrix[:2, 2].numpy()
    return np.asarray(points, dtype=np.float64) @ linear.T + shift


def _move_keypoints(flat: list[float], matrix: Tensor, width: int, height: int) -> tuple[list[float], int]:
    """x, y and whether it is seen; (0, 0, 0) for a point that is not there or has left the picture."""
    points = np.reshape(np.asarray(flat, dtype=np.float64), (-1, 3)).copy()
    there = points[:, 2] > 0
    points[:, :2] = _move_points(points[:, :2], matrix)
    inside = ((points[:, :2] >= 0) & (points[:, :2] <= (width, height))).all(1)
    points[~(there & inside)] = 0
    return _rounded(points.ravel()), int((points[:, 2] > 0).sum())


def _move_mask(mask: NDArray[np.uint8], matrix: Tensor, size: tuple[int, int]) -> NDArray[np.uint8]:
    """By the nearest pixel; nothing lies outside."""
    pose = invert(frame_of((mask.shape[0], mask.shape[1]))) @ invert(matrix) @ frame_of(size)
    return warp_tiled(np.ascontiguousarray(mask)[..., None], pose, size, (0.0,), mode="nearest")[..., 0]  # type: ignore[return-value]


def _to_seen(given: tuple[int | None, int | None], done: Correction) -> Tensor:
    """From the pixels that annotations count in to those of the photo as it is seen, ``(3, 3)``.

    Some tools look past the EXIF tag: their width and height are those of the pixels as they are stored.
    """
    seen = (done.width, done.height)
    if given == (None, None) or given == seen:
        return torch.eye(3, dtype=torch.float64)
    if done.orientation < 5 or given != seen[::-1]:
        raise ValueError(
            f"the annotations of {done.path} are for {given[0]} × {given[1]} pixels, and it has {seen[0]} × {seen[1]}: "
            "they belong to another version of the photo"
        )
    w, h = seen
    turns = {  # orientation: x and y as they are seen, from x and y as they are stored
        5: [[0, 1, 0], [1, 0, 0]],
        6: [[0, -1, w], [1, 0, 0]],
        7: [[0, -1, w], [-1, 0, h]],
        8: [[0, 1, 0], [-1, 0, h]],
    }
    return torch.tensor([*turns[done.orientation], [0, 0, 1]], dtype=torch.float64)


def _by_name(corrections: Iterable[Correction]) -> dict[str, Correction]:
    """By the whole name, and by the last part of it where that is the only one."""
    found: dict[str, Correction] = {}
    short: dict[str, Correction | None] = {}
    for done in corrections:
        found[done.file] = done
        last = PurePosixPath(done.file).name
        short[last] = None if last in short else done
    return {name: done for name, done in short.items() if done is not None} | found


def _plain(name: str) -> str:
    return str(name).replace("\\", "/").removeprefix("./")


def _rounded(values: NDArray[np.float64]) -> list[float]:
    return [round(float(value), 2) for value in values]
