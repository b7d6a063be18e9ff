"""A photo that was turned by a known pose comes back, in its own resolution, format and company."""

import csv
import math
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import torchvision
from PIL import ExifTags, Image, ImageCms, PngImagePlugin, TiffImagePlugin

from tokenstn.data import read_image
from tokenstn.geometry import Pose, invert, warp
from tokenstn.inference import tiles
from tokenstn.inference.photo_file import bits_of, is_lossless_webp
from tokenstn.inference.rectify import Rectifier
from tokenstn.inference.rectify_job import PARTS, SETTINGS, remove_photos
from tokenstn.inference.shards import ShardFolder
from tokenstn.inference.sources import list_images
from tokenstn.inference.tiles import warp_tiled
from tokenstn.verbs.rectify import rectify

from ..models.flags import some_thresholds
from .known_pose import known_model
from .scenes import declare, deep_png, inside, jpeg, opened, photo, scene, tiff

QUIET = {"accelerator": "cpu", "progress": False, "workers": 0}
TURN = Pose.of(rotation=torch.tensor(math.radians(37.0)))
POSES = {
    "rotation": TURN,
    "scale": Pose.of(rotation=torch.tensor(2.5), scale=torch.tensor(1.2)),
    "shear": Pose.of(rotation=torch.tensor(-0.8), scale=torch.tensor(0.9), shear=torch.tensor(0.2)),
    "translation": Pose.of(rotation=torch.tensor(0.4), translation=torch.tensor([0.1, -0.05])),
    "reflection": Pose.of(rotation=torch.tensor(0.4), reflection=torch.tensor(-1.0)),
}


def turned(pixels: np.ndarray, pose: Pose) -> np.ndarray:
    """The photo as it looks when its object has this pose; in floating point, then rounded once."""
    image = torch.from_numpy(pixels).double().reshape(*pixels.shape[:2], -1).movedim(-1, 0)[None]
    moved = warp(image, invert(pose.matrix.double()), mode="bicubic")[0].movedim(0, -1)
    top = 65535 if pixels.dtype == np.uint16 else 255
    return moved.numpy().round().clip(0, top).astype(pixels.dtype).reshape(pixels.shape)


def rows_of(out: Path) -> dict[str, dict[str, str]]:
    with (out / "corrections.csv").open(newline="") as file:
        return {row["file"]: row for row in csv.DictReader(file)}


@pytest.mark.parametrize(
    ("name", "size"),
    [*((name, size) for name in POSES for size in ((200, 200), (160, 260), (260, 160))), ("rotation", (960, 1260))],
    ids=str,
)
def test_a_photo_that_was_turned_is_restored(name, size, tmp_path):
    """Two interpolations and two roundings apart: on average 0.7 grey levels of 255, and nowhere inside more than 4.

    Sizes that fit the network's 32 pixels without rounding, so that both turn about the same centre.
    """
    pose, original = POSES[name], photo(*size)
    (tmp_path / "in").mkdir()
    Image.fromarray(turned(original, pose)).save(tmp_path / "in" / "a.png")
    names = ("rotation", name) if name != "rotation" else ("rotation",)
    names = (*names, "scale") if name == "shear" else names
    rectify(known_model(pose, names), tmp_path / "in", str(tmp_path / "out"), **QUIET)
    restored = np.asarray(opened(tmp_path / "out" / "images" / "a.png"))
    assert restored.shape == original.shape
    error = np.abs(restored.astype(float) - original)[inside(*size, 0.6)]
    assert error.mean() < 0.7 and error.max() <= 4
    row = rows_of(tmp_path / "out")["a.png"]
    assert row["corrected"] == "yes" and (row["width"], row["height"]) == (str(size[1]), str(size[0]))


def test_a_quarter_turn_on_a_canvas_that_grows_is_exact(tmp_path):
    original = photo(60, 90)
    lying = np.ascontiguousarray(np.rot90(original, -1))  # clockwise
    (tmp_path / "in").mkdir()
    Image.fromarray(lying).save(tmp_path / "in" / "a.png")
    model = known_model(Pose.of(rotation=torch.tensor(math.pi / 2)))
    rectify(model, tmp_path / "in", str(tmp_path / "out"), canvas="expand", **QUIET)
    np.testing.assert_array_equal(np.asarray(opened(tmp_path / "out" / "images" / "a.png")), original)


def test_a_canvas_that_grows_shows_all_of_the_photo(tmp_path):
    (tmp_path / "in").mkdir()
    white = np.full((50, 80), 255, dtype=np.uint8)
    Image.fromarray(white).save(tmp_path / "in" / "a.png")
    rectify(known_model(TURN), tmp_path / "in", str(tmp_path / "out"), canvas="expand", padding="black", **QUIET)
    shown = np.asarray(opened(tmp_path / "out" / "images" / "a.png")).astype(float)
    assert shown.sum() / 255 == pytest.approx(white.size, rel=0.01)
    cos, sin = math.cos(math.radians(37)), math.sin(math.radians(37))
    assert shown.shape == (math.ceil(50 * cos + 80 * sin), math.ceil(80 * cos + 50 * sin))


@pytest.mark.parametrize("outside", ["reflection", "border", (0.0,)])
@pytest.mark.parametrize("size", [(90, 130), (40, 70)])
def test_tiles_are_one_warp(outside, size, monkeypatch):
    monkeypatch.setattr(tiles, "TILE", 17)
    pixels = photo(90, 130, 1)[..., None]
    matrix = POSES["shear"].matrix.double() @ Pose.of(scale=torch.tensor(1.4, dtype=torch.float64)).matrix
    padding = "zeros" if isinstance(outside, tuple) else outside
    image = torch.from_numpy(pixels).movedim(-1, 0)[None]
    whole = warp(image.double(), matrix, size, padding=padding, mode="bicubic")[0].movedim(0, -1).numpy()
    found = warp_tiled(pixels, matrix, size, outside)
    assert np.abs(found - whole.clip(0, 255)).max() <= 0.51  # rounding alone


def corrected(content: bytes | Path, tmp_path: Path, pose: Pose = TURN, suffix: str = ".jpg", **settings) -> Path:
    """Put a file in a folder, correct it, and say where the result is."""
    folder = tmp_path / f"in{suffix}"
    folder.mkdir(exist_ok=True)
    if isinstance(content, bytes):
        (folder / f"a{suffix}").write_bytes(content)
    rectifier = Rectifier(list_images(folder), tmp_path / "out", **settings)
    rectifier(0, pose.matrix.double(), None)
    return tmp_path / "out" / f"a{suffix}"


@pytest.mark.parametrize("options", [{"quality": 35}, {"quality": 92, "subsampling": 0, "progressive": True}], ids=str)
def test_a_jpeg_keeps_its_quality_and_all_that_is_said_about_it(options, tmp_path):
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    exif = Image.Exif()
    exif[0x0110], exif[0x0112] = "a camera", 1
    exif.get_ifd(0x8769)[0x9003] = "2024:05:06 07:08:09"
    content = jpeg(
        photo(64, 96), exif=exif.tobytes(), icc_profile=profile, dpi=(300, 300), comment=b"by hand", **options
    )
    path = corrected(content, tmp_path)
    before, after = opened(tmp_path / "in.jpg" / "a.jpg"), opened(path)
    assert after.format == "JPEG" and after.size == before.size
    assert after.quantization == before.quantization and after.info.get("progressive") == before.info.get("progressive")
    from PIL.JpegImagePlugin import get_sampling

    assert get_sampling(after) == get_sampling(before)
    assert after.getexif()[0x0110] == "a camera" and after.getexif().get_ifd(0x8769)[0x9003] == "2024:05:06 07:08:09"
    assert (
        after.info["icc_profile"] == profile and after.info["dpi"] == (300, 300) and after.info["comment"] == b"by hand"
    )
    other = torchvision.io.read_image(str(path))  # another decoder
    np.testing.assert_allclose(other.movedim(0, -1).numpy(), np.asarray(after), atol=2)


def test_the_exif_orientation_is_followed_once(tmp_path):
    upright = photo(120, 80)
    exif = Image.Exif()
    exif[0x0112] = 6  # stored lying; to be turned clockwise
    exif.get_ifd(0x8769)[0xA002], exif.get_ifd(0x8769)[0xA003] = 120, 80
    stored = np.ascontiguousarray(np.rot90(turned(upright, TURN)))
    path = corrected(jpeg(stored, exif=exif.tobytes(), quality=95, subsampling=0), tmp_path)
    after = opened(path)
    assert after.size == (80, 120) and after.getexif()[0x0112] == 1
    assert (after.getexif().get_ifd(0x8769)[0xA002], after.getexif().get_ifd(0x8769)[0xA003]) == (80, 120)
    error = np.abs(np.asarray(after).astype(float) - upright)[inside(120, 80, 0.6)]
    assert error.mean() < 2  # JPEG took its share


MODES = ["L", "LA", "RGB", "RGBA", "I;16", "1", "P"]


@pytest.mark.parametrize(
    ("mode", "suffix"), [*((mode, suffix) for mode in MODES for suffix in (".png", ".tif")), ("CMYK", ".tif")]
)
def test_modes_and_depths_are_kept(mode, suffix, tmp_path):
    original = scene(80, 100, 1, 65535).round().astype(np.uint16)[..., 0] if mode == "I;16" else photo(80, 100)
    image = Image.fromarray(original) if mode == "I;16" else Image.fromarray(original).convert(mode)
    (tmp_path / f"in{suffix}").mkdir()
    image.save(tmp_path / f"in{suffix}" / f"a{suffix}")
    after = opened(corrected(Path(), tmp_path, suffix=suffix))
    assert after.mode == ("RGB" if mode == "P" else mode) and after.size == image.size
    again = warp(
        torch.from_numpy(np.array(image.convert("RGB") if mode == "P" else image).reshape(80, 100, -1).astype(float))
        .movedim(-1, 0)[None], TURN.matrix.double(), mode="bicubic",
    )[0].movedim(0, -1).numpy()  # fmt: skip
    if mode != "1":
        found = np.array(after).reshape(80, 100, -1).astype(float)
        assert np.abs(found - again.clip(0, 65535 if mode == "I;16" else 255)).max() <= 1.01
    if suffix == ".png" and mode in ("L", "RGB", "RGBA"):  # another decoder
        np.testing.assert_array_equal(
            torchvision.io.read_image(str(tmp_path / "out" / "a.png")).movedim(0, -1).squeeze(-1).numpy(),
            np.array(after),
        )


def test_colours_of_transparent_pixels_do_not_bleed(tmp_path):
    pixels = np.zeros((60, 60, 4), dtype=np.uint8)
    pixels[..., 1] = 255  # green that nobody sees
    pixels[20:40, 20:40] = (200, 0, 0, 255)
    (tmp_path / "in.png").mkdir()
    Image.fromarray(pixels).save(tmp_path / "in.png" / "a.png")
    after = np.asarray(opened(corrected(Path(), tmp_path, suffix=".png")))
    seen = after[..., 3] > 8
    assert seen.any() and (after[seen][:, 1] <= 3).all() and np.abs(after[seen][:, 0].astype(int) - 200).max() <= 8


def test_text_and_resolution_of_a_png_are_kept(tmp_path):
    said = PngImagePlugin.PngInfo()
    said.add_text("Author", "someone")
    said.add_itxt("Title", "Müll", "de", "Titel")
    (tmp_path / "in.png").mkdir()
    Image.fromarray(photo(40, 40)).save(tmp_path / "in.png" / "a.png", pnginfo=said, dpi=(72, 72))
    after = opened(corrected(Path(), tmp_path, suffix=".png"))
    assert after.text["Author"] == "someone" and after.text["Title"] == "Müll" and after.text["Title"].lang == "de"
    assert after.info["dpi"] == pytest.approx((72, 72), abs=0.1)


@pytest.mark.parametrize(
    ("suffix", "options"), [(".webp", {"lossless": True}), (".webp", {"quality": 80}), (".gif", {}), (".bmp", {})]
)
def test_other_formats_stay_what_they_are(suffix, options, tmp_path):
    folder = tmp_path / f"in{suffix}"
    folder.mkdir()
    Image.fromarray(photo(40, 50)).save(folder / f"a{suffix}", **options)
    after = opened(corrected(Path(), tmp_path, suffix=suffix))
    assert after.format == opened(folder / f"a{suffix}").format and after.size == (50, 40)
    if options.get("lossless"):
        assert b"VP8L" in (tmp_path / "out" / f"a{suffix}").read_bytes()[:64]


def test_a_webp_with_a_profile_in_front_of_its_pixels_stays_lossless(tmp_path):
    (tmp_path / "in.webp").mkdir()
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    Image.fromarray(photo(40, 50)).save(tmp_path / "in.webp" / "a.webp", lossless=True, icc_profile=profile)
    after = corrected(Path(), tmp_path, suffix=".webp")
    assert is_lossless_webp(after.read_bytes()) and opened(after).info["icc_profile"] == profile


def test_the_order_of_bytes_in_a_tiff_changes_no_grey_level(tmp_path):
    """ImageJ writes the most significant one first."""
    grey = scene(60, 60, 1, 51000).round().astype(np.uint16)
    found = {}
    for order in ("<", ">"):
        (tmp_path / order / "in.tif").mkdir(parents=True)
        (tmp_path / order / "in.tif" / "a.tif").write_bytes(tiff(grey, order))
        assert opened(tmp_path / order / "in.tif" / "a.tif").mode == {"<": "I;16", ">": "I;16B"}[order]
        found[order] = np.asarray(opened(corrected(Path(), tmp_path / order, suffix=".tif")))
    np.testing.assert_array_equal(found["<"], found[">"])
    assert found["<"].max() > 40000


def test_grey_levels_in_32_bits_stay_what_is_read_again(tmp_path):
    (tmp_path / "in.tif").mkdir()
    steep = np.zeros((60, 60), dtype=np.int32)
    steep[20:40, 20:40] = 65535  # beside such edges bicubic interpolation goes too far, both ways
    Image.fromarray(steep).save(tmp_path / "in.tif" / "a.tif")
    path = corrected(Path(), tmp_path, suffix=".tif")
    after = opened(path)
    assert after.mode == "I" and after.getextrema() == (0, 65535)
    assert read_image(path).shape == (3, 60, 60)


def test_when_and_where_a_tiff_was_taken_is_kept(tmp_path):
    (tmp_path / "in.tif").mkdir()
    tables = TiffImagePlugin.ImageFileDirectory_v2()
    tables[ExifTags.IFD.Exif] = {36867: "2024:01:01 10:00:00", 0xA002: 50, ExifTags.IFD.Interop: 8}
    tables[ExifTags.IFD.GPSInfo] = {1: "N", 2: (48.0, 2.0, 3.0)}
    Image.fromarray(photo(40, 50)).save(tmp_path / "in.tif" / "a.tif", tiffinfo=tables)
    exif = opened(corrected(Path(), tmp_path, suffix=".tif", canvas="expand")).getexif()
    assert exif.get_ifd(ExifTags.IFD.GPSInfo) == {1: "N", 2: (48.0, 2.0, 3.0)}
    assert exif.get_ifd(ExifTags.IFD.Exif) == {36867: "2024:01:01 10:00:00", 0xA002: exif[256]}


def test_what_cannot_be_written_as_it_was_is_left_as_it_is(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    deep = scene(40, 40, 3, 65535).astype(np.uint16)
    (folder / "deep.png").write_bytes(deep_png(deep))
    (folder / "veiled.png").write_bytes(deep_png(deep[..., :2]))
    (folder / "deep.ppm").write_bytes(b"P6\n# 16 bits\n40 40\n65535\n" + deep.astype(">u2").tobytes())
    (folder / "deep.tif").write_bytes(tiff(deep))
    Image.fromarray(photo(40, 40, 3)).save(folder / "deep.jp2")
    declare(folder / "deep.jp2", b"\xff\x4f\xff\x51", {38: 15, 41: 15, 44: 15})  # 16 bits for each colour, less one
    frames = [Image.fromarray(photo(20, 20, 1)) for _ in range(2)]
    frames[1].putpixel((3, 3), 0)
    frames[0].save(folder / "moving.gif", save_all=True, append_images=frames[1:])
    assert torchvision.io.decode_image(str(folder / "deep.png")).dtype == torch.uint16
    result = rectify(known_model(TURN), folder, str(tmp_path / "out"), **QUIET)
    for path in folder.iterdir():
        assert (tmp_path / "out" / "images" / path.name).read_bytes() == path.read_bytes()
    found = rows_of(tmp_path / "out")
    assert "2 frames" in found.pop("moving.gif")["why_not"]
    assert len(found) == 5 and all("16 bits for each colour" in row["why_not"] for row in found.values())
    assert result.summary.corrected == 0 and sum(result.summary.left.values()) == 6


@pytest.mark.parametrize(("declared", "bits"), [(0x00, 8), (0x40, 10), (0x60, 12)])
def test_an_avif_says_how_deep_it_is(tmp_path, declared, bits):
    path = tmp_path / "photo.avif"
    Image.fromarray(photo(40, 40, 3)).save(path)
    with Image.open(path) as image:
        declare(path, b"av1C", {2: declared})  # such a file cannot be written here, and this one not be decoded
        assert bits_of(image, "AVIF", path.read_bytes()) == bits


def test_a_photo_that_is_upright_is_not_compressed_again(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jpg").write_bytes(jpeg(photo(50, 50)))
    rectify(known_model(Pose.of(rotation=torch.tensor(0.001))), tmp_path / "in", str(tmp_path / "out"), **QUIET)
    assert (tmp_path / "out" / "images" / "a.jpg").read_bytes() == (tmp_path / "in" / "a.jpg").read_bytes()
    assert rows_of(tmp_path / "out")["a.jpg"]["why_not"] == "it is upright already"


@pytest.mark.parametrize(("limit", "left"), [(0.5, False), (None, True)])
def test_only_confident_leaves_ambiguous_ones_as_they_are(limit, left, tmp_path):
    """A threshold of None raises the flag on every image; a point belief has no entropy, so 0.5 raises it on none."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jpg").write_bytes(jpeg(photo(50, 50)))
    model = known_model(TURN, thresholds=some_thresholds(pose_threshold=limit))
    rectify(model, tmp_path / "in", str(tmp_path / "out"), only_confident=True, **QUIET)
    row = rows_of(tmp_path / "out")["a.jpg"]
    assert row["corrected"] == ("no" if left else "yes") and row["pose_ambiguous"] == ("yes" if left else "no")
    same = (tmp_path / "out" / "images" / "a.jpg").read_bytes() == (tmp_path / "in" / "a.jpg").read_bytes()
    assert same == left
    assert row["why_not"] == model.thresholds.uncalibrated.get("pose_ambiguous", "")


def test_a_photo_that_is_left_because_of_its_own_pose_says_so(tmp_path):
    """A threshold that was found, and that any entropy is above."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jpg").write_bytes(jpeg(photo(50, 50)))
    model = known_model(TURN, thresholds=some_thresholds(pose_threshold=-0.1))
    rectify(model, tmp_path / "in", str(tmp_path / "out"), only_confident=True, **QUIET)
    assert rows_of(tmp_path / "out")["a.jpg"]["why_not"] == "several poses fit"


def test_boxes_are_written_upright_one_by_one(tmp_path):
    original = photo(70, 70)
    whole = np.zeros((100, 200, 3), dtype=np.uint8)
    whole[10:80, 20:90] = turned(original, TURN)
    Image.fromarray(whole).save(tmp_path / "photo.png")
    (tmp_path / "boxes.csv").write_text("path,left,top,right,bottom\nphoto.png,20,10,90,80\nphoto.png,100,0,140,40\n")
    out = tmp_path.parent / f"{tmp_path.name}_out"
    rectify(known_model(TURN), tmp_path / "boxes.csv", str(out), sheet=True, **QUIET)
    assert sorted(path.name for path in (out / "images").iterdir()) == [
        "photo_100-0-140-40.png",
        "photo_20-10-90-80.png",
    ]
    found = np.asarray(opened(out / "images" / "photo_20-10-90-80.png"))
    assert np.abs(found.astype(float) - original)[inside(70, 70, 0.6)].mean() < 0.7
    assert opened(out / "sheet.png").size[0] > 160


def test_stopped_and_called_again_it_goes_on(tmp_path, monkeypatch):
    (tmp_path / "in").mkdir()
    for number in range(7):
        Image.fromarray(photo(20, 20 + number)).save(tmp_path / "in" / f"{number}.png")
    (tmp_path / "in" / "x.png").write_bytes(b"broken")
    settings = {**QUIET, "shard_size": 2, "batch_size": 2}
    with monkeypatch.context() as patch:
        real = Rectifier.__call__

        def cut(self, row, pose, ambiguous):
            if row == 5:
                raise KeyboardInterrupt
            return real(self, row, pose, ambiguous)

        patch.setattr(Rectifier, "__call__", cut)
        with pytest.raises(KeyboardInterrupt):
            rectify(known_model(TURN), tmp_path / "in", str(tmp_path / "out"), **settings)
    done = (tmp_path / "out" / "images" / "0.png").stat().st_mtime_ns
    result = rectify(known_model(TURN), tmp_path / "in", str(tmp_path / "out"), **settings)
    assert (result.summary.corrected, result.summary.rejected) == (7, 1)
    assert sorted(rows_of(tmp_path / "out")) == [f"{number}.png" for number in range(7)]
    assert (tmp_path / "out" / "images" / "0.png").stat().st_mtime_ns == done
    with pytest.raises(ValueError, match="padding='reflection', not 'white'"):
        rectify(known_model(TURN), tmp_path / "in", str(tmp_path / "out"), padding="white", **settings)


@pytest.mark.parametrize(("padding", "value"), [("white", 255), ("black", 0)])
def test_the_padding_is_what_was_chosen(padding, value, tmp_path):
    path = corrected(jpeg(np.full((60, 60, 3), 128, np.uint8), quality=95), tmp_path, padding=padding)
    assert np.abs(np.asarray(opened(path))[0, 0].astype(int) - value).max() <= 3
    cmyk = Image.new("CMYK", (60, 60), (10, 20, 30, 40))
    (tmp_path / "in.tif").mkdir()
    cmyk.save(tmp_path / "in.tif" / "a.tif")
    corner = opened(corrected(Path(), tmp_path, suffix=".tif", padding=padding)).convert("RGB").getpixel((0, 0))
    assert corner == (value,) * 3


def test_nothing_of_the_users_is_written_over(tmp_path):
    """The usual layout of COCO is images/ beside annotations.json, which is what results are called, too."""
    (tmp_path / "set" / "images").mkdir(parents=True)
    original = tmp_path / "set" / "images" / "a.png"
    Image.fromarray(photo(20, 20)).save(original)
    coco = tmp_path / "set" / "annotations.json"
    coco.write_text('{"images": [{"id": 1, "file_name": "a.png"}], "annotations": []}')
    before = original.read_bytes(), coco.read_bytes()
    for images, out in ((original.parent, "set"), (tmp_path / "elsewhere", "set")):
        if images != original.parent:
            images.mkdir()
            (images / "a.png").write_bytes(before[0])
        for overwrite in (False, True):
            with pytest.raises((ValueError, FileExistsError), match=r"write over|written over"):
                rectify(
                    known_model(TURN), images, str(tmp_path / out), annotations=str(coco), overwrite=overwrite, **QUIET
                )
    assert (original.read_bytes(), coco.read_bytes()) == before
    assert {path.name for path in (tmp_path / "set").iterdir()} == {"images", "annotations.json"}


def test_beginning_anew_leaves_nothing_of_what_was_there_before(tmp_path):
    (tmp_path / "in").mkdir()
    for name in ("a", "b"):
        Image.fromarray(photo(20, 20)).save(tmp_path / "in" / f"{name}.png")
    rectify(known_model(TURN), tmp_path / "in", str(tmp_path / "out"), sheet=True, **QUIET)
    (tmp_path / "out" / "images" / "note.txt").write_text("not one of the results")
    (tmp_path / "in" / "b.png").unlink()
    rectify(known_model(TURN), tmp_path / "in", str(tmp_path / "out"), canvas="expand", overwrite=True, **QUIET)
    assert {path.name for path in (tmp_path / "out" / "images").iterdir()} == {"a.png", "note.txt"}
    assert not (tmp_path / "out" / "sheet.png").exists() and list(rows_of(tmp_path / "out")) == ["a.png"]


def test_a_stop_while_beginning_anew_loses_nothing_that_is_said_to_be_done(tmp_path, monkeypatch):
    (tmp_path / "in").mkdir()
    for name in "abcd":
        Image.fromarray(photo(20, 20)).save(tmp_path / "in" / f"{name}.png")
    call = partial(rectify, known_model(TURN), tmp_path / "in", str(tmp_path / "out"), shard_size=2, **QUIET)
    call()
    removed, unlink = [], Path.unlink

    def stopped(self, missing_ok=False):
        if self.suffix == ".png" and len(removed) == 1:
            raise KeyboardInterrupt
        removed.extend([self] * (self.suffix == ".png"))
        unlink(self, missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", stopped)
        with pytest.raises(KeyboardInterrupt):
            call(overwrite=True)
    call()
    assert sorted(path.name for path in (tmp_path / "out" / "images").iterdir()) == [f"{name}.png" for name in "abcd"]
    (tmp_path / "out" / ".corrections" / "part-000001.parquet").write_bytes(b"")  # a disk that failed
    assert call(overwrite=True).summary.corrected == 4


def test_beginning_anew_removes_nothing_elsewhere_whatever_a_shard_says(tmp_path):
    (tmp_path / "out" / "images").mkdir(parents=True)
    (tmp_path / "out" / ".corrections").mkdir()
    named = ["../../mine.png", str(tmp_path / "mine.png"), "own.png"]
    pq.write_table(pa.table({"file": named}), tmp_path / "out" / ".corrections" / "part-000000.parquet")
    for path in (tmp_path / "mine.png", tmp_path / "out" / "images" / "own.png"):
        path.write_text("photo")
    remove_photos(ShardFolder(tmp_path / "out", SETTINGS, PARTS, images=3, shard_size=3, settings={}))
    assert (tmp_path / "mine.png").exists() and not (tmp_path / "out" / "images" / "own.png").exists()


def test_what_a_job_was_not_asked_to_write_is_not_its_own(tmp_path):
    """Annotations that a person has made of the results stay, however often it begins anew."""
    (tmp_path / "in").mkdir()
    Image.fromarray(photo(20, 20)).save(tmp_path / "in" / "a.png")
    call = partial(rectify, known_model(TURN), tmp_path / "in", str(tmp_path / "out"), **QUIET)
    call()
    (tmp_path / "out" / "annotations.json").write_text("mine")
    call(overwrite=True)
    assert (tmp_path / "out" / "annotations.json").read_text() == "mine"
    (tmp_path / "coco.json").write_text('{"images": [{"id": 1, "file_name": "a.png"}], "annotations": []}')
    with pytest.raises(FileExistsError, match=r"holds annotations\.json already"):
        call(annotations=str(tmp_path / "coco.json"))
    assert (tmp_path / "out" / "annotations.json").read_text() == "mine"


def test_results_do_not_go_among_the_images(tmp_path):
    (tmp_path / "in").mkdir()
    Image.fromarray(photo(20, 20)).save(tmp_path / "in" / "a.png")
    with pytest.raises(ValueError, match="lies inside"):
        rectify(known_model(TURN), tmp_path / "in", str(tmp_path / "in" / "out"), **QUIET)
