"""What a file says about itself is not believed: it starts no program, fills no memory, and makes nobody wait."""

import io
import logging
import os
import threading
import warnings

import pytest
from PIL import EpsImagePlugin, Image, ImageFile

from tokenstn.data import UnreadableImageError, images, opening, read_image
from tokenstn.data.images import read_file
from tokenstn.data.opening import TooManyPixelsError, opened
from tokenstn.data.paths import walk_images
from tokenstn.inference.photo_file import decode_photo

from ..trust.drills import drill

wild = drill("wild_files")
READERS = (read_image, lambda content: decode_photo(content, "a file"))


def test_all_good_files_are_read_in_every_format_and_mode():
    floating = {name for name in wild.images() if "-F" in name}
    for name, content in wild.images().items():
        if "YCbCr" in name:  # which Pillow writes and cannot read
            continue
        if name in floating:
            with pytest.raises(UnreadableImageError, match="floating-point"):
                read_image(content)
            continue
        assert read_image(content).shape[0] == 3 and read_image(content, 1).shape[0] == 1, name
        decode_photo(content, name)


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("name", list(wild.not_images()))
def test_what_is_no_image_is_refused_whatever_it_is_called(name, read):
    with pytest.raises(UnreadableImageError, match=r"it is not an image|is empty|truncated or corrupt"):
        read(wild.not_images()[name])


@pytest.mark.parametrize("read", READERS)
def test_postscript_starts_no_program(read, monkeypatch):
    started = []
    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *given, **_: started.append(given))
    with pytest.raises(UnreadableImageError, match="not an image in a format that is read"):
        read(wild.not_images()["postscript.jpg"])
    assert started == []


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("black-400-megapixels.png", "pixels that are read"),
        ("declared-3600-megapixels.png", "pixels that are read"),
        ("declared-4225-megapixels.jpg", "pixels that are read"),
        ("declared-4294-megapixels.gif", "pixels that are read"),
        ("declared-terapixels.ppm", "pixels that are read"),
        ("declared-terapixels.bmp", "pixels that are read"),
        ("text-of-50-megabytes.png", "too large"),
        ("many-scans.jpg", "more than 100 scans"),
    ],
)
def test_a_bomb_is_refused_before_it_is_decoded(name, reason, read, monkeypatch):
    bomb = wild.bombs()[name]
    monkeypatch.setattr(ImageFile.ImageFile, "load", lambda _: pytest.fail("a pixel was decoded"))
    with pytest.raises(UnreadableImageError, match=reason):
        read(bomb)


def test_a_jpeg_with_as_many_scans_as_programs_write_is_read():
    assert read_image(wild.many_scans(40, 40, 90), 1).shape == (1, 40, 40)
    with pytest.raises(UnreadableImageError, match="scans"):
        read_image(wild.many_scans(40, 40, 110), 1)


def test_scans_of_what_lies_behind_the_picture_do_not_count():
    photo = wild.images()["JPEG-progressive.jpg"]
    film = b"\xff\xd8" + b"\xff\xda\x00\x02" * 300
    assert read_image(photo + film).shape == read_image(photo).shape


def test_the_limit_of_pixels_can_be_lower(monkeypatch):
    content = wild.images()["PNG-RGB.png"]
    with pytest.raises(TooManyPixelsError, match="36 × 23 pixels are more than the 800"), opened(content, "a", 800):
        pass
    with opened(content, "a", 36 * 23) as image:
        assert image.size == (36, 23)


def test_a_large_photo_is_the_same_in_bands(monkeypatch):
    for name in ("PNG-RGBA.png", "PNG-I16.png", "PNG-clear-palette.png", "TIFF-CMYK.tif", "PNG-1.png"):
        whole = read_image(wild.images()[name])
        monkeypatch.setattr(images, "BAND", 5 * wild.WIDTH)
        assert read_image(wild.images()[name]).equal(whole), name
        monkeypatch.undo()


def test_a_pipe_a_device_and_a_huge_file_are_not_read(tmp_path):
    """Reading the first would wait for ever, the others would fill the memory."""
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "device.png").symlink_to("/dev/zero")
    with (tmp_path / "huge.tif").open("wb") as file:
        file.truncate(3 * 2**30)
    for name, reason in (("pipe", "pipe"), ("device", "device"), ("huge", "3,221,225,472 bytes are more")):
        with pytest.raises(UnreadableImageError, match=reason):
            read_file(next(tmp_path.glob(f"{name}.*")))


def test_links_that_lead_nowhere_are_named(tmp_path):
    (tmp_path / "dangling.png").symlink_to("absent.png")
    (tmp_path / "circle.png").symlink_to("circle.png")
    with pytest.raises(UnreadableImageError, match="a link to a file that is not there"):
        read_image(tmp_path / "dangling.png")
    with pytest.raises(UnreadableImageError, match="cannot be opened"):
        read_image(tmp_path / "circle.png")


def test_a_folder_that_may_not_be_listed_is_not_passed_over(tmp_path, monkeypatch):
    (tmp_path / "closed").mkdir()
    (tmp_path / "a.png").write_bytes(b"")
    scandir = os.scandir

    def refuse(path):
        if os.fspath(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", os.fspath(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(ValueError, match=r"closed cannot be listed \(Permission denied\)"):
        list(walk_images(tmp_path))


def test_what_pillow_warns_of_is_not_shown_and_other_warnings_are(capfd):
    """Also where several threads read at once, and nothing of it stays."""
    noisy = [content for name, content in wild.mutants(60) if "TIFF" in name]
    before = list(warnings.filters)

    def read_all():
        for content in noisy:
            try:
                decode_photo(content, "a file")
            except UnreadableImageError:
                continue

    threads = [threading.Thread(target=read_all) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert warnings.filters == before
    with pytest.warns(UserWarning, match="mine"):
        warnings.warn("mine", stacklevel=1)


def test_a_broken_exif_block_warns_nobody():
    good = wild.images()["JPEG-metadata.jpg"]
    place = good.index(b"Exif\0\0") + 14
    broken = good[:place] + b"\xff\xff" + good[place + 2 :]  # so many entries, of which there are three
    with pytest.warns(UserWarning, match="EXIF|truncated"):
        Image.open(io.BytesIO(broken)).getexif()
    assert read_image(broken).equal(read_image(good))  # a warning would be an error here


def test_what_pillow_logs_is_for_those_who_asked_for_it(capfd):
    logging.getLogger("PIL.TiffImagePlugin").error("more samples than can be decoded")
    assert capfd.readouterr().err == ""


def test_no_pixels_are_no_image(monkeypatch):
    class Nothing:
        width, height, format = 0, 7, "PNG"

    monkeypatch.setattr(opening.Image, "open", lambda *_, **__: Nothing())
    with pytest.raises(UnreadableImageError, match="no pixels"), opened(b"x", "a"):
        pass
