"""Poses are applied to the original pixels, and what the network then sees is what it would see of such a photo."""

import numpy as np
import pytest
import torch
from PIL import Image

from tokenstn.data import BadImage, ImageDataset, ImageTable, fit, to_float
from tokenstn.evaluation.photos import PhotoOrbit, Photos, collate_photos, load_photos, posed_inputs, shrink
from tokenstn.geometry import Orbit, Pose, rotation_group, rotoscale_group, shear_rotoscale_group
from tokenstn.models import Preprocessing

from ..data.pictures import noise
from .toys import PREPROCESSING, table_of

HALF = (0.5, 0.5, 0.5)


def turn(degrees: float) -> torch.Tensor:
    return Pose.of(rotation=torch.tensor(degrees, dtype=torch.float64).deg2rad()).matrix


def bar(height: int, width: int) -> torch.Tensor:
    """A horizontal bar in the middle, four times as long as it is thick."""
    photo = torch.zeros(3, height, width, dtype=torch.uint8)
    side = min(height, width)
    middle, centre = height // 2, width // 2
    photo[:, middle - side // 16 : middle + side // 16, centre - side // 4 : centre + side // 4] = 255
    return photo


@pytest.fixture
def files(tmp_path):
    """Photos of three sizes and a broken one; grey enough that no pass of a bicubic resize clips them."""
    for number, (height, width) in enumerate([(40, 60), (40, 60), (70, 30), (200, 260)]):
        Image.fromarray(noise(height, width, seed=number) // 2 + 64).save(tmp_path / f"{number}.png")
    (tmp_path / "4.png").write_bytes(b"not an image")
    items = [tmp_path / f"{number}.png" for number in range(5)]
    return ImageTable("files", items, torch.tensor([0, 1, 0, 1, 0]), ("a", "b"))


@pytest.mark.parametrize("resize", ["crop", "pad", "squash"])
@pytest.mark.parametrize("size", [(32, 32), (24, 40)])
def test_an_unmoved_photo_is_what_prediction_sees(files, resize, size):
    preprocessing = Preprocessing(size, HALF, HALF, resize=resize, crop_share=0.9)
    batch = next(iter(load_photos(files, torch.arange(5), preprocessing, batch_size=5)))
    seen = [
        fit(files.read(row), size, resize, preprocessing.crop_share, preprocessing.interpolation) for row in range(4)
    ]
    expected = to_float(torch.stack(seen), HALF, HALF)
    assert torch.equal(PhotoOrbit(batch, rotation_group(3), preprocessing)[0], expected)
    whole = posed_inputs([files.read(row) for row in range(4)], torch.eye(3), preprocessing)
    assert (whole - expected).abs().max() <= 1.25 / 255 / 0.5, "bytes are rounded after each of two passes"


@pytest.mark.parametrize("group", [rotation_group(5), rotoscale_group(3, scales=2), shear_rotoscale_group(3, scales=2)])
def test_photos_of_the_network_size_have_the_plain_orbit(group):
    table = table_of(6)
    batch = next(iter(load_photos(table, torch.tensor([1, 4, 5]), PREPROCESSING)))
    fitted = to_float(table.items[[1, 4, 5]], PREPROCESSING.mean, PREPROCESSING.std)
    plain = Orbit(fitted, group, index=torch.tensor([1, 4, 5]), seed=7)
    orbit = PhotoOrbit(batch, group, PREPROCESSING, seed=7)
    assert len(orbit) == len(group)
    for k in range(len(group)):
        torch.testing.assert_close(orbit[k], plain[k], atol=2e-5, rtol=0)
        assert torch.equal(orbit.matrices(k), plain.matrices(k))


def test_the_first_shear_of_an_image_does_not_depend_on_its_batch():
    group, table = shear_rotoscale_group(2, scales=1), table_of(6)
    alone = next(iter(load_photos(table, torch.tensor([4]), PREPROCESSING)))
    among = next(iter(load_photos(table, torch.tensor([0, 4, 2]), PREPROCESSING)))
    first, second = (PhotoOrbit(batch, group, PREPROCESSING, seed=3)[1] for batch in (alone, among))
    torch.testing.assert_close(first[0], second[1])


@pytest.mark.parametrize(("height", "width"), [(64, 128), (128, 64)])
def test_a_turned_bar_stays_a_bar_although_photos_are_squashed(height, width):
    """Turned by a quarter on the original pixels it is squashed the other way; turning the squashed one is not that."""
    squash = Preprocessing((64, 64), HALF, HALF, resize="squash")
    photo = bar(height, width)
    lying, standing = (posed_inputs([photo], turn(angle), squash)[0, 0] > 0 for angle in (0, 90))
    thick, long = 8, 32
    wide = width > height  # the squash then halves the width, and only that
    assert _extent(lying) == ((thick, long // 2) if wide else (thick // 2, long))
    assert _extent(standing) == ((long, thick // 2) if wide else (long // 2, thick))


def test_a_turned_bar_is_as_long_and_thick_under_a_crop():
    crop = Preprocessing((64, 64), HALF, HALF)
    photo = bar(128, 256)
    lying, standing = (posed_inputs([photo], turn(angle), crop)[0, 0] > 0 for angle in (0, 90))
    assert _extent(lying) == (8, 32) and _extent(standing) == (32, 8)


def _extent(inside: torch.Tensor) -> tuple[int, int]:
    """Height and width of the bar, without what the reflection shows of it at the edges."""
    inside = inside[10:-10, 10:-10]
    return int(inside.any(1).sum()), int(inside.any(0).sum())


def test_a_shrunk_photo_turns_into_the_shrunk_turned_photo():
    y, x = np.mgrid[0:300, 0:420] / 300
    smooth = np.stack([np.sin(5 * x + 3 * y), np.cos(4 * x - 2 * y), np.sin(6 * x * y)], 0)
    photo = torch.from_numpy((127 + 120 * smooth).round().astype(np.uint8))
    preprocessing = Preprocessing((32, 32), HALF, HALF)
    small = shrink(photo, preprocessing)
    assert min(small.shape[1:]) == pytest.approx(64, abs=1) and shrink(small, preprocessing) is small
    direct, shrunk = (posed_inputs([pixels], turn(33), preprocessing, mode="bicubic") for pixels in (photo, small))
    # off the corners, where a reflection at the edge of the photo shows, they agree to about a grey level
    assert (direct - shrunk)[..., 8:24, 8:24].abs().max() < 3 / 255 / 0.5
    assert (direct - shrunk).abs().mean() < 1 / 255 / 0.5


def test_photos_of_many_sizes_come_out_as_one_by_one(files):
    preprocessing = Preprocessing((20, 20), HALF, HALF)
    photos = [files.read(row) for row in range(4)]
    matrices = torch.stack([turn(angle) for angle in (10, 80, 190, 300)])
    together = posed_inputs(photos, matrices, preprocessing)
    for photo, matrix, one in zip(photos, matrices, together, strict=True):
        torch.testing.assert_close(posed_inputs([photo], matrix, preprocessing)[0], one)


def test_paddings_differ_only_outside_the_photo(files):
    preprocessing = Preprocessing((40, 40), HALF, (0.25,) * 3)
    square = files.read(0)[:, :, 10:50]
    paddings = [posed_inputs([square], turn(45), preprocessing, padding=p)[0] for p in ("reflection", "border", "mean")]
    for other in paddings[1:]:
        torch.testing.assert_close(paddings[0][:, 14:26, 14:26], other[:, 14:26, 14:26])
        assert (paddings[0][:, :4, :4] - other[:, :4, :4]).abs().max() > 0.1
    assert paddings[2][:, 0, 0].abs().max() < 1e-5, "the mean colour is 0 after normalisation"


def test_broken_images_are_left_out_and_listed(files):
    batches = list(load_photos(files, torch.arange(5), PREPROCESSING, batch_size=4))
    assert batches[0]["index"].tolist() == [0, 1, 2, 3] and len(batches[0]["photo"]) == 4
    assert batches[1]["index"].tolist() == [] and batches[1]["photo"] == []
    (name, reason), = batches[1]["bad"]  # fmt: skip
    assert name.endswith("4.png") and "not an image" in reason
    assert isinstance(Photos(files, torch.tensor([4]), PREPROCESSING)[0], BadImage)


def test_the_box_is_cut_out_first(files):
    boxed = ImageTable("boxed", files.items[:1], torch.tensor([0]), ("a",), boxes=torch.tensor([[5, 3, 45, 33]]))
    sample = Photos(boxed, torch.tensor([0]), PREPROCESSING)[0]
    assert torch.equal(sample["photo"], files.read(0)[:, 3:33, 5:45]) and sample["photo_size"].tolist() == [30, 40]
    plain = ImageDataset(boxed, size=PREPROCESSING.size)[0]
    assert torch.equal(collate_photos([sample])["image"][0], plain["image"])
