"""Any bytes at all: an image, or a refusal with a name and a reason.

``benchmarks/reliability/files.py`` tries thousands.
"""

import csv
import os
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenstn.data import UnreadableImageError, read_image
from tokenstn.inference import photo_file
from tokenstn.inference.photo_file import decode_photo
from tokenstn.models import Preprocessing
from tokenstn.verbs.predict import predict
from tokenstn.verbs.rectify import rectify

from .drills import drill

wild = drill("wild_files")
QUIET = {"accelerator": "cpu", "progress": False, "workers": 0}
INPUT = Preprocessing((32, 32), (0.5,) * 3, (0.25,) * 3)


def short(index: int) -> bytes:
    """A mutant; those of very long photos take long."""
    return next(content for name, content in wild.mutants(50, index) if "000" not in name[6:])


def said_by(kind: type[Exception], step: Callable[[], object]) -> str | None:
    """What a step is refused with; None where it is not."""
    try:
        step()
    except kind as error:
        return str(error)
    return None


@given(index=st.integers(0, 10**9))
@settings(max_examples=150, deadline=None)
def test_any_mutant_is_read_or_refused_with_a_reason(index):
    content = short(index)
    for read in (read_image, lambda given: read_image(given, 1), lambda given: decode_photo(given, "a file")):
        reason = said_by(UnreadableImageError, lambda: read(content))  # noqa: B023 - it is called here
        assert reason is None or (0 < len(reason) < 600 and reason.isprintable())


@given(index=st.integers(0, 10**9))
@settings(max_examples=60, deadline=None)
def test_the_server_prepares_any_mutant_or_says_why_not(index):
    pytest.importorskip("fastapi")
    from fastapi import HTTPException

    from tokenstn.apps.upload import Limits, prepared_image

    found = []
    reason = said_by(HTTPException, lambda: found.append(prepared_image(short(index), INPUT, Limits(10**7, 10**6))))
    if reason is None:
        assert found[0][0].shape == (3, 32, 32) and min(found[0][1]) > 0
    else:
        assert reason.startswith(("413: the image is too large", "422: the image cannot be read"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Photos with all kinds of names, broken ones among them, links, a pipe, and what rectify cannot write again."""
    folder = tmp_path_factory.mktemp("wild")
    good = wild.images()["JPEG-metadata.jpg"]
    for name in wild.odd_names():
        Path(os.fsdecode(os.fsencode(folder) + b"/" + name)).write_bytes(good)
        Path(os.fsdecode(os.fsencode(folder) + b"/b" + name[1:])).write_bytes(good[:400])
    for name in ("TIFF-F.tif", "GIF-animated.gif", "PNG-48-bits.png", "TIFF-LAB.tif", "JPEG-CMYK.jpg", "PNG-1.png"):
        (folder / name).write_bytes(wild.images()[name])
    for name in ("JPEG-30000x10.jpg", "PNG-1x3000.png", "PNG-RGB-one-pixel.png"):
        (folder / name).write_bytes(wild.images()[name])
    (folder / "bomb.png").write_bytes(wild.bombs()["declared-3600-megapixels.png"])
    (folder / "dangling.png").symlink_to("absent.png")
    (folder / "again").symlink_to(folder)
    os.mkfifo(folder / "pipe.png")
    return folder


def names_in(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name != "again"]


def rejected_in(out: Path) -> dict[str, str]:
    with (out / "rejected.csv").open(newline="", encoding="utf-8") as file:
        return {row["path"]: row["reason"] for row in csv.DictReader(file)}


def test_predict_gives_every_file_a_row_or_a_reason(folder, tmp_path):
    model = drill("small_model").small_model()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = predict(model, folder, str(tmp_path / "out"), **QUIET).summary
    rejected = rejected_in(tmp_path / "out")
    assert found.images == len(names_in(folder)) == found.predicted + len(rejected)
    assert len(rejected) == len(wild.odd_names()) + 4 and all(rejected.values())
    assert len({name for name in rejected if "udce" in name}) == 2  # not the same question mark for both


def test_rectify_corrects_leaves_or_rejects_every_file(folder, tmp_path):
    model = drill("small_model").small_model()
    found = rectify(model, folder, str(tmp_path / "out"), sheet=True, **QUIET).summary
    done = [path for path in (tmp_path / "out" / "images").rglob("*") if path.is_file()]
    assert found.images == len(names_in(folder)) == found.corrected + sum(found.left.values()) + found.rejected
    assert len(done) == found.corrected + sum(found.left.values())
    assert {path.name for path in done} <= {path.name for path in folder.iterdir()}
    for path in done:
        assert read_image(path).shape[0] == 3


def test_a_photo_whose_file_cannot_be_written_again_is_left_as_it_is(tmp_path, monkeypatch):
    (tmp_path / "photos").mkdir()
    content = wild.images()["JPEG-metadata.jpg"]
    (tmp_path / "photos" / "talkative.jpg").write_bytes(content)
    model = drill("small_model").small_model()

    def fail(*_, **__):
        raise ValueError("EXIF data is too long")

    monkeypatch.setattr(photo_file, "_resized", fail)
    found = rectify(model, tmp_path / "photos", str(tmp_path / "out"), **QUIET).summary
    assert found.corrected == 0 and found.rejected == 0
    assert found.left == {"it cannot be written again with all that its file says": 1}
    assert (tmp_path / "out" / "images" / "talkative.jpg").read_bytes() == content


def test_a_line_is_not_turned_on_a_canvas_for_all_of_it(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "line.png").write_bytes(wild.black_png(200_000, 1))
    model = drill("small_model").small_model()
    found = rectify(model, tmp_path / "photos", str(tmp_path / "out"), canvas="expand", **QUIET).summary
    assert list(found.left) == ["it is more than 10,000 times as long as it is wide"]
