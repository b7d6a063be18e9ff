"""What a data set is before a pixel is read: where its images are, their labels, splits, groups and boxes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from tokenstn.data.images import require_channels, with_channels
from tokenstn.data.items import Item, read_item

SPLITS = ("train", "val", "test")


@dataclass(frozen=True, eq=False)
class ImageTable:
    """One row for each image. Checked when it is made; ``open_images`` makes one from almost anything.

    name: for people. items: what to read, N files (or members of a zip or a torch Dataset), or the images themselves,
    uint8 ``(N, C, H, W)``. labels: ``(N,)`` int64, −1 = unlabelled; with ``multi_label`` ``(N, L)`` float of 0 and 1, a
    row of −1 = unlabelled. classes: their names, in the order of the labels. splits: rows of train, val and test, each
    ``(n,)`` int64. groups: rows of one group (patient, trap, site) belong in one split. boxes: ``(N, 4)`` int64 left,
    top, right, bottom in pixels, cut out of the photo before anything else; a row of −1 = the whole photo. channels: 1
    or 3. upright: whether the images are known to be upright; None = not known.

    >>> pixels = torch.zeros(3, 1, 8, 8, dtype=torch.uint8)
    >>> table = ImageTable("black", pixels, torch.tensor([0, 1, -1]), ("cat", "dog"), channels=1)
    >>> len(table), table.class_counts().tolist()
    (3, [1, 1])
    """

    name: str
    items: Sequence[Item] | Tensor
    labels: Tensor
    classes: tuple[str, ...] = ()
    splits: Mapping[str, Tensor] = field(default_factory=dict)
    groups: Sequence[str] | None = None
    boxes: Tensor | None = None
    multi_label: bool = False
    channels: int = 3
    upright: bool | None = None

    def __post_init__(self) -> None:
        require_channels(self.channels)
        rows = len(self)
        if rows == 0:
            raise ValueError(f"{self.name} holds no image")
        if isinstance(self.items, Tensor) and (self.items.ndim != 4 or self.items.dtype != torch.uint8):
            raise ValueError(
                f"images in memory are uint8 (N, C, H, W), {self.name} has {self.items.dtype} {list(self.items.shape)}"
            )
        for what, given in (("labels", self.labels), ("groups", self.groups), ("boxes", self.boxes)):
            if given is not None and len(given) != rows:
                raise ValueError(f"{self.name} has {rows} images but {len(given)} {what}; give one for each image")
        self._check_labels()
        self._check_splits()
        if self.boxes is not None:
            self._check_boxes(self.boxes)

    def __len__(self) -> int:
        return len(self.items)

    def split(self, name: str) -> Tensor:
        """The rows of a split, ``(n,)`` int64."""
        if name not in self.splits:
            there = ", ".join(self.splits) or "none"
            raise ValueError(
                f"{self.name} has no split {name!r} (there are: {there}); split_table makes the missing ones"
            )
        return self.splits[name]

    def subset(self, rows: Tensor) -> ImageTable:
        """The table of some rows, ``(n,)``; splits keep the rows that are left, and go when none is."""
        place = torch.full((len(self),), -1)
        place[rows] = torch.arange(len(rows))
        kept = {name: place[index][place[index] >= 0] for name, index in self.splits.items()}
        wanted = rows.tolist()
        return replace(
            self,
            items=self.items[rows] if isinstance(self.items, Tensor) else [self.items[row] for row in wanted],
            labels=self.labels[rows],
            splits={name: index for name, index in kept.items() if len(index)},
            groups=None if self.groups is None else [self.groups[row] for row in wanted],
            boxes=None if self.boxes is None else self.boxes[rows],
        )

    def box(self, row: int) -> tuple[int, int, int, int] | None:
        """What is cut out of the photo of a row first, left, top, right, bottom; None for the whole photo."""
        if self.boxes is None or int(self.boxes[row, 0]) < 0:
            return None
        left, top, right, bottom = self.boxes[row].tolist()
        return left, top, right, bottom

    def seen_size(self, row: int, photo: tuple[int, int]) -> tuple[int, int]:
        """Height and width of what is looked at of the photo of a row, which has those of ``photo``."""
        box = self.box(row)
        return photo if box is None else (box[3] - box[1], box[2] - box[0])

    def class_counts(self) -> Tensor:
        """The number of images of each class, ``(classes,)`` int64."""
        if self.multi_label:
            return (self.labels > 0).sum(0)
        return torch.bincount(self.labels[self.labels >= 0], minlength=len(self.classes))

    def require_every_class(self) -> None:
        """Refuse a class without an image: nothing can be learned or measured about it."""
        empty = [name for name, count in zip(self.classes, self.class_counts().tolist(), strict=True) if count == 0]
        if empty:
            raise ValueError(
                f"{self.name}: no image of {listed(empty, 'class')}; add images, or take it off the classes"
            )

    def item_name(self, row: int) -> str:
        """What an image is called in messages: its path, or its number."""
        return f"image {row} of {self.name}" if isinstance(self.items, Tensor) else str(self.items[row])

    def read(self, row: int, channels: int | None = None) -> Tensor:
        """The whole photo of a row, uint8 ``(channels, H, W)``; ``boxes`` are not applied yet."""
        channels = self.channels if channels is None else channels
        item = self.items[row]
        return with_channels(item, channels) if isinstance(item, Tensor) else read_item(item, channels)

    def _check_labels(self) -> None:
        wanted = "float (N, classes) of 0 and 1" if self.multi_label else "int64 (N,)"
        shape = (len(self), len(self.classes)) if self.multi_label else (len(self),)
        right_type = self.labels.is_floating_point() if self.multi_label else self.labels.dtype == torch.int64
        if tuple(self.labels.shape) != shape or not right_type:
            raise ValueError(
                f"labels of {self.name} are {wanted}, got {self.labels.dtype} {list(self.labels.shape)} "
                f"for {len(self)} images and {len(self.classes)} classes"
            )
        if len(set(self.classes)) != len(self.classes):
            raise ValueError(f"{self.name} names a class twice; class names are distinct")
        unwritable = [name for name in self.classes if name != name.encode(errors="replace").decode()]
        if unwritable:  # found out here, and not when a trained model is to be saved
            raise ValueError(f"{self.name}: the name of {listed(unwritable, 'class')} is no text in UTF-8; rename it")
        if self.multi_label:
            unlabelled = (self.labels == -1).all(1, keepdim=True)
            bad = ((self.labels != 0) & (self.labels != 1) & ~unlabelled).any(1)
            allowed = "0 and 1 for each class, or −1 for all of them (unlabelled)"
        else:
            bad = (self.labels < -1) | (self.labels >= len(self.classes))
            allowed = f"0 to {len(self.classes) - 1} for {len(self.classes)} classes, or −1 (unlabelled)"
        if bool(bad.any()):
            row = int(bad.nonzero()[0])
            raise ValueError(
                f"{self.item_name(row)} has label {self.labels[row].tolist()}, outside the range: {allowed}"
            )

    def _check_splits(self) -> None:
        seen = torch.zeros(len(self), dtype=torch.int64)
        for name, rows in self.splits.items():
            if name not in SPLITS:
                raise ValueError(f"{self.name} has a split {name!r}; splits are called {', '.join(SPLITS)}")
            if len(rows) == 0:
                raise ValueError(f"the {name} split of {self.name} is empty; add images to it, or leave it out")
            if int(rows.min()) < 0 or int(rows.max()) >= len(self):
                raise ValueError(f"the {name} split of {self.name} names rows outside 0 to {len(self) - 1}")
            seen.index_add_(0, rows, torch.ones_like(rows))
        if bool((seen > 1).any()):
            row = int((seen > 1).nonzero()[0])
            raise ValueError(
                f"{self.item_name(row)} is in more than one split, or twice in one; each image has one place"
            )

    def _check_boxes(self, boxes: Tensor) -> None:
        if boxes.shape[1:] != (4,) or boxes.dtype != torch.int64:
            raise ValueError(f"boxes are int64 (N, 4), got {boxes.dtype} {list(boxes.shape)}")
        left, top, right, bottom = boxes.unbind(1)
        bad = ~((left >= 0) & (top >= 0) & (right > left) & (bottom > top)) & (boxes != -1).any(1)
        if bool(bad.any()):
            row = int(bad.nonzero()[0])
            raise ValueError(
                f"{self.item_name(row)} has the box {boxes[row].tolist()}; a box is left, top, right, bottom in "
                "pixels, none below 0, with left < right and top < bottom"
            )


def listed(names: Sequence[str], noun: str) -> str:
    """A few names in a sentence.

    >>> listed(["cat", "dog"], "class"), listed(["a"], "group")
    ("classes 'cat', 'dog'", "group 'a'")
    """
    shown = ", ".join(repr(name) for name in names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{noun if len(names) == 1 else plural} {shown}"
