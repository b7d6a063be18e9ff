"""COCO annotations go where the pixels go that they are about."""

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from PIL import Image

from tokenstn.geometry import Pose
from tokenstn.inference.polygons import area, clip
from tokenstn.inference.rle import decode_mask, encode_mask
from tokenstn.verbs.rectify import rectify

from .known_pose import known_model
from .scenes import opened, photo

QUIET = {"accelerator": "cpu", "progress": False, "workers": 0}
POSE = Pose.of(rotation=torch.tensor(math.radians(30.0)), scale=torch.tensor(0.9))
SIZE = (120, 160)
SQUARE = (70, 40, 24, 16)  # x, y, width, height of what is annotated


def coco(**changes) -> dict:
    x, y, w, h = SQUARE
    annotation = {"id": 1, "image_id": 7, "category_id": 3, "bbox": [x, y, w, h], "iscrowd": 0, "area": w * h} | changes
    image = {"id": 7, "file_name": "a.png", "width": SIZE[1], "height": SIZE[0]}
    return {"info": {"by": "us"}, "images": [image], "annotations": [annotation], "categories": [{"id": 3}]}


def square_mask() -> np.ndarray:
    x, y, w, h = SQUARE
    mask = np.zeros(SIZE, dtype=np.uint8)
    mask[y : y + h, x : x + w] = 1
    return mask


def moved(tmp_path, given: dict, pose: Pose = POSE, pixels: np.ndarray | None = None, exif=None, **settings):
    """Correct one photo with its annotations: the new annotation file, and the result."""
    (tmp_path / "in").mkdir()
    pixels = 255 * square_mask() if pixels is None else pixels
    Image.fromarray(pixels).save(tmp_path / "in" / "a.png", **({} if exif is None else {"exif": exif}))
    (tmp_path / "coco.json").write_text(json.dumps(given))
    model = known_model(pose, ("rotation", "scale"))
    rectify(
        model, tmp_path / "in", str(tmp_path / "out"), annotations=str(tmp_path / "coco.json"), padding="black",
        **QUIET, **settings,
    )  # fmt: skip
    return json.loads((tmp_path / "out" / "annotations.json").read_text()), opened(
        tmp_path / "out" / "images" / "a.png"
    )


def bounds(picture) -> list[float]:
    """x, y, width, height of what is bright."""
    rows, columns = (np.flatnonzero((np.asarray(picture) > 127).any(axis)) for axis in (1, 0))
    return [columns[0], rows[0], columns[-1] + 1 - columns[0], rows[-1] + 1 - rows[0]]


@pytest.mark.parametrize("canvas", ["same", "expand"])
@pytest.mark.parametrize("kind", ["box", "polygon", "mask", "mask as text"])
def test_a_box_lies_around_what_it_was_drawn_around(kind, canvas, tmp_path):
    x, y, w, h = SQUARE
    outline = {
        "box": {},
        "polygon": {"segmentation": [[x, y, x + w, y, x + w, y + h, x, y + h]]},
        "mask": {"segmentation": encode_mask(square_mask(), as_text=False)},
        "mask as text": {"segmentation": encode_mask(square_mask(), as_text=True)},
    }[kind]
    after, picture = moved(tmp_path, coco(**outline), canvas=canvas)
    annotation = after["annotations"][0]
    assert annotation["bbox"] == pytest.approx(bounds(picture), abs=1.5)
    assert annotation["area"] == pytest.approx(w * h / 0.81, rel=0.03)
    assert (after["images"][0]["width"], after["images"][0]["height"]) == picture.size
    assert after["info"] == {"by": "us"} and after["categories"] == [{"id": 3}] and annotation["category_id"] == 3


def test_a_mask_is_moved_pixel_by_pixel(tmp_path):
    after, picture = moved(tmp_path, coco(segmentation=encode_mask(square_mask(), as_text=True)))
    found = after["annotations"][0]["segmentation"]
    assert isinstance(found["counts"], str)
    assert (decode_mask(found) != (np.asarray(picture) > 127)).mean() < 0.004


def test_key_points_stay_on_what_they_mark(tmp_path):
    pixels = np.zeros(SIZE, dtype=np.uint8)
    pixels[58:62, 98:102] = 255
    given = coco(keypoints=[100, 60, 2, 0, 0, 0, 1, 1, 1], num_keypoints=2)
    after, picture = moved(tmp_path, given, pixels=pixels)
    x, y, seen, *others = after["annotations"][0]["keypoints"]
    bx, by, bw, bh = bounds(picture)
    assert (x, y, seen) == (pytest.approx(bx + bw / 2, abs=0.8), pytest.approx(by + bh / 2, abs=0.8), 2)
    assert others == [0] * 6 and after["annotations"][0]["num_keypoints"] == 1  # the corner has left the picture


def test_boxes_are_cut_off_at_the_edge_and_go_when_nothing_is_left(tmp_path):
    given = coco(bbox=[0, 0, 6, 6])
    given["annotations"] += [
        {"id": 2, "image_id": 7, "bbox": [75, 0, 20, 30]},
        {"id": 3, "image_id": 99, "bbox": [1, 1, 2, 2]},
    ]
    after, _ = moved(tmp_path, given)
    assert [annotation["id"] for annotation in after["annotations"]] == [2]
    x, y, w, h = after["annotations"][0]["bbox"]
    assert x >= 0 and y == 0 and x + w <= SIZE[1] and y + h <= SIZE[0]


def test_fields_that_say_nothing_are_taken_as_they_come(tmp_path):
    nothing = {"area": None, "segmentation": None, "keypoints": None}
    given = coco(**nothing)
    given["annotations"] += [{"id": 2, "image_id": 7, "bbox": [5, 5, 0, 4], **nothing}]
    after, _ = moved(tmp_path, given)
    assert [(one["id"], one["area"]) for one in after["annotations"]] == [(1, None)], "of a line nothing is left"


def test_what_is_cut_off_is_cut_off_its_area_and_key_points_that_are_all_gone_go(tmp_path):
    given = coco(bbox=[75, 0, 20, 30], area=600)
    whole = coco(bbox=[75, 40, 20, 30], area=600)
    given["annotations"] += [{"id": 2, "image_id": 7, "keypoints": [1, 1, 2, 0, 0, 0], "num_keypoints": 1}]
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    cut, uncut = (moved(tmp_path / name, one)[0]["annotations"] for name, one in (("a", given), ("b", whole)))
    assert len(cut) == 1 and cut[0]["area"] < 0.95 * uncut[0]["area"]
    assert uncut[0]["area"] == pytest.approx(600 / 0.81, rel=0.01)


@pytest.mark.parametrize("orientation", [5, 6, 7, 8])
def test_annotations_of_stored_pixels_follow_the_exif_tag(orientation, tmp_path):
    """The width and height that the file gives are those before the tag is followed."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    given = coco(segmentation=encode_mask(square_mask(), as_text=False))
    after, picture = moved(tmp_path, given, exif=exif)
    assert picture.size == (SIZE[0], SIZE[1])
    assert after["annotations"][0]["bbox"] == pytest.approx(bounds(picture), abs=1.5)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"images": [{"id": 7, "file_name": "b.png"}]}, "is of other images: it names b.png"),
        (
            {"images": [{"id": 7, "file_name": "a.png", "width": 3, "height": 4}]},
            "are for 3 × 4 pixels, and it has 160",
        ),
        ({"annotations": None}, "is no COCO file"),
        ({"annotations": [{"image_id": 7, "bbox": [1, 2, 3]}]}, "annotation 1 has the bbox"),
        ({"annotations": [{"image_id": 7, "segmentation": [[1, 2, 3, 4, 5]]}]}, "annotation 1 has a segmentation"),
        ({"annotations": [{"image_id": 7, "segmentation": {"size": [9, 9]}}]}, "annotation 1 has a mask without"),
        ({"annotations": [{"image_id": 7}, {"image_id": 7, "keypoints": [1, 2]}]}, "annotation 2 has keypoints"),
    ],
)
def test_annotations_that_do_not_fit_are_refused(change, sentence, tmp_path):
    with pytest.raises(ValueError, match=sentence):
        moved(tmp_path, coco() | change)


def test_photos_in_folders_are_found_by_path_or_by_name(tmp_path):
    for name in ("x/a.png", "y/b.png"):
        (tmp_path / "in" / name).parent.mkdir(parents=True)
        Image.fromarray(photo(60, 80, 1)).save(tmp_path / "in" / name)
    images = [{"id": 1, "file_name": "x/a.png"}, {"id": 2, "file_name": "b.png"}]
    boxes = [{"id": number, "image_id": number, "bbox": [30, 20, 10, 10]} for number in (1, 2)]
    (tmp_path / "c.json").write_text(json.dumps({"images": images, "annotations": boxes}))
    rectify(
        known_model(POSE, ("rotation", "scale")),
        tmp_path / "in",
        str(tmp_path / "out"),
        annotations=str(tmp_path / "c.json"),
        **QUIET,
    )
    after = json.loads((tmp_path / "out" / "annotations.json").read_text())
    assert [image["file_name"] for image in after["images"]] == ["x/a.png", "y/b.png"] and len(
        after["annotations"]
    ) == 2


def text_by_hand(runs: list[int]) -> str:
    """The same text from the description of the format, with binary digits as strings."""
    said = ""
    for place, run in enumerate(runs):
        number = run - runs[place - 2] if place > 2 else run
        bits = 5
        while not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
            bits += 5
        digits = format(number % 2**bits, f"0{bits}b")
        groups = [digits[k : k + 5] for k in range(0, bits, 5)][::-1]
        said += "".join(chr(48 + int(group, 2) + 32 * (k < len(groups) - 1)) for k, group in enumerate(groups))
    return said


@given(st.lists(st.integers(1, 3000), min_size=1, max_size=12), st.booleans())
def test_run_lengths_are_written_as_the_format_says(runs, starts_with_ones):
    runs = [0, *runs] if starts_with_ones else runs
    mask = np.repeat(np.arange(len(runs)) % 2, runs).astype(np.uint8).reshape(1, -1)
    written = encode_mask(mask, as_text=True)
    assert written["counts"] == text_by_hand(runs)
    np.testing.assert_array_equal(decode_mask(written), mask)
    assert encode_mask(mask, as_text=False)["counts"] == runs


def test_a_mask_with_too_few_pixels_is_refused():
    with pytest.raises(ValueError, match="2 × 3 pixels has runs of 5"):
        decode_mask({"size": [2, 3], "counts": [1, 4]})


@given(st.lists(st.tuples(st.floats(-20, 30), st.floats(-20, 30)), min_size=3, max_size=3))
def test_a_clipped_triangle_covers_what_it_covered_of_the_image(corners):
    """Counted on a fine grid."""
    triangle = np.array(corners)
    assume(area(triangle) > 1)
    cut = clip(triangle, 10, 10)
    y, x = (np.mgrid[:200, :200] + 0.5) / 20
    edges = np.roll(triangle, -1, 0) - triangle
    sides = np.stack([e[0] * (y - p[1]) - e[1] * (x - p[0]) for p, e in zip(triangle, edges, strict=True)])
    counted = ((sides >= 0).all(0) | (sides <= 0).all(0)).mean() * 100
    assert (area(cut) if len(cut) > 2 else 0.0) == pytest.approx(counted, abs=1.5)
