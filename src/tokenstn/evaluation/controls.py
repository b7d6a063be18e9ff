"""Controls: is it really the object that gives the angle away, and not the seams?

A warped image carries its angle in its reflected corners and in its blur. Five things must not matter: turning without
any resampling, turning without seams, hiding the corners from the localizer, another padding, and another
interpolation. All of it on the centre squares of the photos, which keep their shape under quarter turns and have the
largest seams in between.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from tokenstn.evaluation.answers import is_labelled, judge, numbered
from tokenstn.evaluation.intervals import standard_error
from tokenstn.evaluation.method import Method, Sampling, Views
from tokenstn.evaluation.orbit import device_of
from tokenstn.evaluation.photos import Photos, posed_inputs
from tokenstn.evaluation.results import Control
from tokenstn.geometry import Pose, hide_corners
from tokenstn.models import Preprocessing

LARGEST_GAP = 0.01
SURE = 1.96  # standard errors that a gap has to exceed, before it is more than chance
UNTURNED = "unturned"  # what the answers of the others agree with
QUARTERS = (90, 180, 270)
DIAGONALS = (45, 135, 225, 315)  # where the seams are
# pixels along both sides: bilinear interpolation at this place between pixels, f (1 − f) = 1/6, blurs as much as a turn
# does on average, whose pixels fall anywhere between those of the photo
AS_BLURRED = (1 - 3**-0.5) / 2


@torch.no_grad()
def run_controls(
    model: Method,
    photos: DataLoader[Any],
    *,
    views: Views = "auto",
    sampling: Sampling = "probable",
    device: torch.device | str | None = None,
) -> tuple[Control, ...]:
    """The controls over some hundred photos (``load_photos``), at three or four rotations each.

    Shares are accuracies over the labelled images. Without labels they are consistencies: how often the class is that
    of the image as it comes; the controls' names say so.
    """
    dataset = photos.dataset
    assert isinstance(dataset, Photos)
    preprocessing = dataset.preprocessing
    model.eval()
    device = device_of(model) if device is None else torch.device(device)
    model.to(device)
    runs: dict[str, _Run] = {}
    together: list[tuple[Tensor, Tensor]] = []  # rows of each batch, and which of them have labels
    noise = torch.Generator().manual_seed(0) if sampling == "random" else None
    for number, batch in enumerate(photos):
        if len(batch["index"]) == 0:
            continue
        squares = [centre_square(photo).to(device) for photo in batch["photo"]]
        upright: dict[str, Tensor] = {}
        for circumstance, inputs in _circumstances(squares, preprocessing, model):
            answers = {"bare": model.classify(inputs, {}).probabilities}
            if not model.bare:
                seen = hide_corners(inputs) if circumstance == "masked" else inputs
                belief: Any = model.believe(seen, views)  # each method has its own kind, and takes that
                answers["rectified"] = model.classify(inputs, belief, views, sampling, noise).probabilities
            for who, probabilities in answers.items():
                judged = judge(probabilities.float().cpu(), batch["label"], model.multi_label)
                reference = upright.setdefault(who, judged["predicted"])  # the first circumstance is unturned
                runs.setdefault(f"{circumstance}/{who}", _Run()).add(number, judged, batch["label"], reference)
        together.append((batch["index"], is_labelled(batch["label"])))
    if not runs:
        return ()
    rows, known = (torch.cat(parts) for parts in zip(*together, strict=True))
    rows = rows[known] if bool(known.any()) else rows
    groups = dataset.table.groups
    clusters = rows if groups is None else numbered([str(groups[row]) for row in rows.tolist()])
    return _controls(runs, clusters, rectified=not model.bare)


def centre_square(photo: Tensor) -> Tensor:
    """The largest square around the centre of a photo ``(C, H, W)``.

    >>> centre_square(torch.zeros(3, 4, 7)).shape
    torch.Size([3, 4, 4])
    """
    height, width = photo.shape[-2:]
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    return photo[..., top : top + side, left : left + side]


def _circumstances(squares: list[Tensor], preprocessing: Preprocessing, model: Method) -> Iterator[tuple[str, Tensor]]:
    """(name, inputs) of every circumstance and rotation, the unturned images first."""
    upright = torch.eye(3, dtype=torch.float64)
    yield UNTURNED, posed_inputs(squares, upright, preprocessing, device=squares[0].device)
    for quarter, degrees in enumerate(QUARTERS, start=1):
        exact = [square.rot90(-quarter, (-2, -1)) for square in squares]  # clockwise, as a positive angle looks
        yield "exact", posed_inputs(exact, upright, preprocessing, device=squares[0].device)
        yield "seamless", posed_inputs(exact, blurring(exact), preprocessing, device=squares[0].device)
        yield "quarters", _turned(squares, degrees, preprocessing)
    for degrees in DIAGONALS:
        inputs = _turned(squares, degrees, preprocessing)
        yield "diagonals", inputs
        if not model.bare:
            yield "masked", inputs
        yield "border", _turned(squares, degrees, preprocessing, padding="border")
        yield "bicubic", _turned(squares, degrees, preprocessing, mode="bicubic")


def blurring(squares: list[Tensor]) -> Tensor:
    """Poses ``(B, 3, 3)`` that blur squares ``(C, h, h)`` as much as turning them does, and hardly move them."""
    pixel = torch.tensor([2 / square.shape[-1] for square in squares], dtype=torch.float64)  # in units of the frame
    shift = AS_BLURRED * pixel
    return Pose.of(translation=torch.stack((shift, shift), -1)).matrix


def _turned(squares: list[Tensor], degrees: int, preprocessing: Preprocessing, **how: Any) -> Tensor:
    pose = Pose.of(rotation=torch.tensor(degrees, dtype=torch.float64).deg2rad()).matrix
    return posed_inputs(squares, pose, preprocessing, device=squares[0].device, **how)


class _Run:
    """How right the answers on each image are under one circumstance, and whether they agree with the upright one."""

    def __init__(self) -> None:
        self._right: dict[int, list[Tensor]] = {}  # by batch, one tensor for each rotation
        self._agreeing: dict[int, list[Tensor]] = {}

    def add(self, number: int, judged: dict[str, Tensor], labels: Tensor, upright: Tensor) -> None:
        """The answers of batch ``number`` at one more rotation."""
        right = judged["correct"][is_labelled(labels)].double()
        self._right.setdefault(number, []).append(right if right.ndim == 1 else right.mean(-1))
        self._agreeing.setdefault(number, []).append((judged["predicted"] == upright).double())

    def by_image(self, labelled: bool) -> Tensor:
        """Share of the rotations, ``(n,)``: right ones for each labelled image, or agreeing ones for each image."""
        batches = (self._right if labelled else self._agreeing).values()
        return torch.cat([torch.stack(rotations).mean(0) for rotations in batches])


@dataclass(frozen=True)
class _Comparison:
    """One control: which circumstance against which, what a gap means, and whether rotations differ too."""

    name: str
    measured: str
    reference: str
    against: str
    fine: str
    gap: str
    other_rotations: bool = False
    of_rectifier: bool = False


_COMPARISONS = (
    _Comparison(
        "exact quarter turns", "exact", "quarters", "the same turns warped",
        "resampling plays no part", "resampling changes the answers: compare with the photos' own resolution",
    ),
    _Comparison(
        "turns without seams, against turns with seams", "seamless", "diagonals", "diagonal turns, as blurred",
        "it does without seams", "it needs the seams of warped images to find the angle: distrust the other figures",
        other_rotations=True, of_rectifier=True,
    ),
    _Comparison(
        "circular mask", "masked", "diagonals", "the localizer seeing the corners as well",
        "the corners do not give the angle away", "the localizer reads the angle from the corners, or minds the mask",
        of_rectifier=True,
    ),
    _Comparison(
        "another padding", "border", "diagonals", "reflection padding",
        "the padding plays no part", "it depends on what lies outside the photo",
    ),
    _Comparison(
        "another interpolation", "bicubic", "diagonals", "bilinear interpolation",
        "the interpolation plays no part", "it depends on how the image was resampled",
    ),
)  # fmt: skip


def _controls(runs: dict[str, _Run], clusters: Tensor, rectified: bool) -> tuple[Control, ...]:
    labelled = len(runs["exact/bare"].by_image(True)) > 0
    shares = {name: run.by_image(labelled) for name, run in runs.items()}
    return tuple(
        _control(comparison, shares, clusters, labelled, "rectified" if rectified else "bare")
        for comparison in _COMPARISONS
        if rectified or not comparison.of_rectifier
    )


def _control(comparison: _Comparison, shares: dict[str, Tensor], clusters: Tensor, labelled: bool, who: str) -> Control:
    measured, reference = shares[f"{comparison.measured}/{who}"], shares[f"{comparison.reference}/{who}"]
    accuracy, wanted = measured.mean().item(), reference.mean().item()
    gap, error = wanted - accuracy, standard_error(reference - measured, clusters)
    # with other rotations only a lower share is a bad sign
    large = (gap if comparison.other_rotations else abs(gap)) > LARGEST_GAP + 1e-9
    warns = large and abs(gap) > SURE * error
    what = "right" if labelled else "the same as unturned"
    width = f" ± {100 * SURE * error:.1f}" if math.isfinite(error) else ""
    apart = f", {100 * abs(gap):.1f}{width} points apart" if large else ""
    said = f"; {comparison.gap if warns else comparison.fine}"
    if large and not warns:
        groups = len(clusters.unique())
        independent = f"images of {groups} group{'s' * (groups > 1)}" if groups < len(measured) else "images"
        said = f", which {len(measured)} {independent} do not tell from chance"
    return Control(
        name=comparison.name if labelled else f"{comparison.name} (consistency)",
        accuracy=accuracy,
        reference=wanted,
        bare_accuracy=shares[f"{comparison.measured}/bare"].mean().item(),
        warns=warns,
        sentence=(
            f"{comparison.name}: {accuracy:.1%} {what} against {wanted:.1%} for {comparison.against}{apart}{said}"
        ),
    )
