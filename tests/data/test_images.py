"""Every kind of image file becomes the same kind of tensor, and what cannot is refused by name."""

import io
import pickle
import struct

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps

from tokenstn.data import UnreadableImageError, images, opening, read_image

from .pictures import noise


def encoded(image, form="PNG", **options):
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


COLOUR = Image.fromarray(noise(9, 7))


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16", "YCbCr", "LAB", "PA"])
def test_every_mode_is_read_with_the_channels_asked_for(mode, channels):
    image = Image.fromarray(np.arange(63, dtype=np.uint16).reshape(9, 7)) if mode == "I;16" else COLOUR.convert(mode)
    form = "TIFF" if mode in ("CMYK", "LAB", "PA", "I;16") else "JPEG" if mode == "YCbCr" else "PNG"
    read = read_image(encoded(image, form), channels)
    assert read.shape == (channels, 9, 7)
    assert read.dtype == torch.uint8 and read.movedim(0, -1).is_contiguous(), "as files have it, and resizing likes it"


def test_colour_is_read_exactly_and_grey_is_its_luma():
    content = encoded(COLOUR)
    assert np.array_equal(read_image(content).movedim(0, -1).numpy(), np.asarray(COLOUR))
    assert np.array_equal(read_image(content, 1)[0].numpy(), np.asarray(COLOUR.convert("L")))


def test_sixteen_bits_are_scaled_by_their_full_range():
    values = np.array([[0, 128, 257, 32768, 65535]], dtype=np.uint16)
    read = read_image(encoded(Image.fromarray(values)), 1)
    assert read.flatten().tolist() == [0, 0, 1, 128, 255]


def test_a_one_bit_image_is_black_and_white():
    read = read_image(encoded(Image.fromarray(np.array([[True, False]]))), 1)
    assert read.flatten().tolist() == [255, 0]


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_transparency_shows_white(mode):
    clear = Image.new("RGBA", (2, 2), (10, 20, 30, 0))
    content = (
        encoded(clear.convert("P"), transparency=clear.convert("P").getpixel((0, 0)))
        if mode == "P"
        else encoded(clear.convert(mode))
    )
    assert read_image(content).unique().tolist() == [255]
    half = Image.new("LA", (1, 1), (0, 128))
    assert read_image(encoded(half), 1).item() == 127


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("form", ["JPEG", "PNG", "TIFF"])
def test_the_orientation_tag_is_resolved(orientation, form):
    upright = Image.fromarray(np.kron(noise(3, 2), np.ones((16, 16, 1), dtype=np.uint8)))
    exif = Image.Exif()
    exif[0x0112] = orientation
    content = encoded(upright, form, exif=exif, **({"quality": 95} if form == "JPEG" else {}))
    wanted = {2: 0, 3: 3, 4: 1, 5: 5, 6: 4, 7: 6, 8: 2}  # PIL's numbers for the transposition that undoes each
    expected = read_image(encoded(upright, form, **({"quality": 95} if form == "JPEG" else {})))
    if orientation > 1:
        turned = Image.fromarray(expected.movedim(0, -1).numpy()).transpose(Image.Transpose(wanted[orientation]))
        expected = torch.from_numpy(np.array(turned)).movedim(-1, 0)
    assert torch.equal(read_image(content), expected)


def test_the_orientation_agrees_with_pillow():
    exif = Image.Exif()
    exif[0x0112] = 6
    content = encoded(COLOUR, exif=exif)
    expected = ImageOps.exif_transpose(Image.open(io.BytesIO(content)))
    assert np.array_equal(read_image(content).movedim(0, -1).numpy(), np.asarray(expected))


def exif_of(*tags):
    """EXIF bytes of (number, type, count, value), whatever sense they make."""
    entries = b"".join(struct.pack("<HHII", *tag) for tag in tags)
    return b"Exif\0\0II*\0\x08\0\0\0" + struct.pack("<H", len(tags)) + entries + bytes(4)


@pytest.mark.parametrize(
    "other",
    [
        (0x0100, 2, 1, 1),  # a width that is a text
        (0x8825, 4, 1, 8),  # a place that begins where the EXIF does
        (0x0201, 2, 4, 0x41414141),  # a preview at "AAAA"
        (0x0131, 12, 1, 6),  # a program whose name is a number
    ],
)
def test_a_photo_is_turned_whatever_its_other_tags_say(other):
    content = encoded(COLOUR, exif=exif_of((0x0112, 3, 1, 6), other))
    expected = torch.from_numpy(np.array(COLOUR.transpose(Image.Transpose.ROTATE_270))).movedim(-1, 0)
    assert torch.equal(read_image(content), expected)


@pytest.mark.parametrize("broken", [b"Exif\0\0garbage and more", b"Exif\0\0MM", b"Exif\0\0MM\0*\xff\xff\xff\xff"])
def test_tags_that_cannot_be_read_turn_nothing(broken):
    plain = torch.from_numpy(np.array(COLOUR)).movedim(-1, 0)
    assert torch.equal(read_image(encoded(COLOUR, exif=broken)), plain)
    assert read_image(encoded(COLOUR, "JPEG", exif=broken)).shape == plain.shape


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty"),
        (b"this is text", "not an image"),
        (encoded(COLOUR)[:60], "truncated or corrupt"),
        (encoded(Image.fromarray(noise(64, 64)), "JPEG")[:900], "truncated or corrupt"),
        (encoded(COLOUR)[:40] + b"\0" * 300, "header is broken"),
        (encoded(Image.new("F", (2, 2)), "TIFF"), "floating-point"),
        (encoded(Image.new("I", (2, 2), 70000), "TIFF"), "70000"),
    ],
)
def test_an_unreadable_file_is_refused_with_its_name_and_the_reason(tmp_path, content, reason):
    path = tmp_path / "broken.png"
    path.write_bytes(content)
    with pytest.raises(UnreadableImageError, match=reason) as caught:
        read_image(path)
    assert str(path) in str(caught.value)
    assert caught.value.reason in str(caught.value) and str(path) not in caught.value.reason
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(UnreadableImageError, match="no such file"):
        read_image(tmp_path / "absent.png")
    with pytest.raises(UnreadableImageError, match="folder"):
        read_image(tmp_path)


def test_an_image_above_the_pixel_limit_is_refused_before_it_is_decoded(monkeypatch):
    monkeypatch.setattr(opening, "PIXEL_LIMIT", 62)
    with pytest.raises(UnreadableImageError, match="7 × 9 pixels are more than the 62"):
        read_image(encoded(COLOUR))


def test_a_large_photo_is_read_without_a_warning_and_a_bomb_is_refused():
    assert read_image(encoded(Image.new("1", (10_000, 10_000))), 1).shape == (1, 10_000, 10_000)
    with pytest.raises(UnreadableImageError, match="pixels that are read"):
        read_image(encoded(Image.new("1", (15_000, 15_000))))


def test_other_numbers_of_channels_are_refused():
    with pytest.raises(ValueError, match="channels=2"):
        read_image(encoded(COLOUR), channels=2)


def test_tensors_change_their_channels_by_the_same_rules():
    read = read_image(encoded(COLOUR))
    assert torch.allclose(images.with_channels(read, 1).float(), read_image(encoded(COLOUR), 1).float(), atol=1.0)
    opaque = torch.cat((read, torch.full_like(read[:1], 255)))
    assert torch.equal(images.with_channels(opaque, 3), read)
    assert images.with_channels(torch.cat((read, torch.zeros_like(read[:1]))), 1).unique().tolist() == [255]
    with pytest.raises(ValueError, match="1, 3 or 4 channels"):
        images.with_channels(torch.zeros(2, 4, 4, dtype=torch.uint8), 3)
