"""What is found in the rectified image lands where it lies in the input and in the photo."""

import math

import pytest
import torch
from torch import Tensor

from tokenstn import Prediction, Preprocessing
from tokenstn.data import fit
from tokenstn.geometry import Pose, warp

POSE = Pose.of(
    rotation=torch.tensor([0.0, 0.7]),
    scale=torch.tensor([1.0, 0.8]),
    translation=torch.tensor([[0.0, 0.0], [0.1, 0.05]]),
)
SIZE = (64, 64)


def blob(size: tuple[int, int], x: float, y: float, width: float = 3.0) -> Tensor:
    """A bright spot in an image ``(1, H, W)`` uint8, centred at pixel coordinates."""
    rows, columns = torch.arange(size[0]) + 0.5, torch.arange(size[1]) + 0.5
    distance = (columns[None] - x) ** 2 + (rows[:, None] - y) ** 2
    return (255 * torch.exp(-distance / (2 * width**2))).round().to(torch.uint8)[None]


def centre(values: Tensor) -> Tensor:
    """The centre of mass of ``(H, W)``, x then y in pixels."""
    weights = values.double()
    rows, columns = torch.arange(values.shape[0]) + 0.5, torch.arange(values.shape[1]) + 0.5
    return torch.stack(((weights.sum(0) * columns).sum(), (weights.sum(1) * rows).sum())) / weights.sum()


def seen_through(photo: Tensor, preprocessing: Preprocessing, box=None) -> Prediction:
    """What a model that finds ``POSE`` makes of a photo, in both rows the same."""
    left, top, right, bottom = box or (0, 0, photo.shape[2], photo.shape[1])
    part = photo[:, top:bottom, left:right]
    image = fit(part, SIZE, preprocessing.resize, preprocessing.crop_share).float().expand(2, 1, *SIZE)
    return Prediction(torch.ones(2, 1), POSE, warp(image, POSE.matrix))


@pytest.mark.parametrize("resize", ["crop", "pad", "squash"])
@pytest.mark.parametrize(
    ("size", "place", "box"),
    [((90, 150), (80, 40), None), ((150, 90), (40, 80), None), ((200, 300), (150, 95), (100, 50, 200, 140))],
)
@pytest.mark.parametrize("row", [0, 1])
def test_a_spot_is_taken_back_to_where_it_was_in_the_photo(resize, size, place, box, row):
    preprocessing = Preprocessing(SIZE, (0.5,), (0.5,), resize, crop_share=0.9)
    p = seen_through(blob(size, *place), preprocessing, box)
    back = p.to_photo(row, size, preprocessing, box)
    wanted = torch.tensor(place, dtype=torch.float64)
    shown = p.rectified[row, 0]
    torch.testing.assert_close(back.points(centre(shown)[None])[0], wanted, atol=0.7, rtol=0)
    torch.testing.assert_close(centre(back.heatmap(shown)), wanted, atol=0.7, rtol=0)
    torch.testing.assert_close(centre(back.mask(shown > 100)), wanted, atol=1.5, rtol=0)
    assert back.mask(shown > 100).dtype == torch.bool and back.heatmap(shown).shape == size
    x, y = centre(shown).tolist()
    left, top, right, bottom = back.boxes(torch.tensor([[x - 2, y - 2, x + 2, y + 2]]))[0].tolist()
    assert left < place[0] < right and top < place[1] < bottom


@pytest.mark.parametrize("row", [0, 1])
def test_a_coarse_map_shows_the_same_as_a_fine_one(row):
    preprocessing = Preprocessing(SIZE, (0.5,), (0.5,))
    p = seen_through(blob((90, 150), 80, 40, width=12.0), preprocessing)
    back = p.to_photo(row, (90, 150), preprocessing)
    coarse = torch.nn.functional.avg_pool2d(p.rectified[row], 4)
    assert coarse.shape == (1, 16, 16)
    fine, found = back.heatmap(p.rectified[row]), back.heatmap(coarse)
    assert found.shape == (1, 90, 150)
    seen = fine[0] > 100
    assert (found - fine)[0][seen].abs().max() < 20


def test_the_input_is_the_rectified_image_turned_again():
    preprocessing = Preprocessing(SIZE, (0.5,), (0.5,))
    image = blob(SIZE, 40, 25)
    p = seen_through(image, preprocessing)
    torch.testing.assert_close(centre(p.to_input(1).heatmap(p.rectified[1, 0])), centre(image[0]), atol=0.3, rtol=0)


def test_without_a_pose_there_is_no_way_back():
    with pytest.raises(ValueError, match="no pose and no rectified image"):
        Prediction(torch.ones(1, 2)).to_input(0)
    p = Prediction(torch.ones(2, 1), POSE, torch.zeros(2, 1, 32, 32))
    with pytest.raises(ValueError, match=r"\(32, 32\) pixels, and the preprocessing makes \(64, 64\)"):
        p.to_photo(0, (90, 90), Preprocessing(SIZE, (0.5,), (0.5,)))


def test_gradients_flow_back_through_a_heatmap():
    p = seen_through(blob(SIZE, 40, 25), Preprocessing(SIZE, (0.5,), (0.5,)))
    values = torch.rand(8, 8, requires_grad=True)
    p.to_input(1).heatmap(values).sum().backward()
    assert math.isfinite(values.grad.sum().item()) and values.grad.abs().sum() > 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_places_in_a_large_photo_are_not_rounded_by_half_precision(dtype):
    how = Preprocessing((224, 224), (0.5,), (0.5,))
    prediction = Prediction(torch.ones(2, 1), POSE, torch.zeros(2, 1, 224, 224))
    way = prediction.to_photo(1, (3000, 4000), how)
    spot = torch.zeros(14, 14)
    spot[3, 11] = 1.0
    torch.testing.assert_close(centre(way.heatmap(spot.to(dtype))), centre(way.heatmap(spot)), atol=0.2, rtol=0)
    whole = torch.tensor([[184, 56]])
    assert way.points(whole).dtype == torch.float32
    torch.testing.assert_close(way.points(whole), way.points(whole.float()))
    torch.testing.assert_close(way.points(whole.to(dtype)), way.points(whole.float()), rtol=0, atol=1e-3)
    assert way.boxes(torch.tensor([[1.0, 2, 3, 4]], dtype=torch.float64)).dtype == torch.float64
