"""Splits: reproducible, every class in its share, no group divided, given splits untouched."""

from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tokenstn.data import ImageTable, split_table
from tokenstn.data.splits import split_digest


def table(labels, **parts):
    labels = torch.tensor(labels)
    count = labels.shape[1] if labels.ndim == 2 else max(int(labels.max()) + 1, 0)
    classes = tuple(f"c{k}" for k in range(count))
    return ImageTable("toy", torch.zeros(len(labels), 1, 2, 2, dtype=torch.uint8), labels, classes, channels=1, **parts)


def sizes(made):
    return {name: len(rows) for name, rows in made.splits.items()}


def test_the_seed_decides_the_splits():
    made = table([k % 4 for k in range(200)])
    first, again, other = split_table(made), split_table(made), split_table(made, seed=1)
    for name in ("train", "val", "test"):
        assert torch.equal(first.split(name), again.split(name))
    assert not torch.equal(first.split("val"), other.split("val"))


def test_every_class_has_its_share_in_every_split():
    made = split_table(table([0] * 100 + [1] * 50 + [2] * 20))
    for name, share in (("train", 0.8), ("val", 0.1), ("test", 0.1)):
        counts = Counter(made.labels[made.split(name)].tolist())
        assert all(abs(counts[c] - share * n) <= 1 for c, n in ((0, 100), (1, 50), (2, 20)))


@pytest.mark.parametrize("each", [2, 3, 4, 5])
def test_many_small_classes_still_add_up_to_the_shares(each):
    made = split_table(table([k // each for k in range(100 * each)]))
    assert abs(len(made.split("val")) - 10 * each) <= 2 and abs(len(made.split("test")) - 10 * each) <= 2
    assert set(made.labels[made.split("train")].tolist()) == set(range(100))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30)), min_size=12, max_size=120), st.integers(0, 5))
def test_groups_are_never_divided_and_nothing_is_lost(rows, seed):
    groups = [f"g{group}" for _, group in rows]
    assume(len(set(groups)) >= 20)
    labels = [label for label, _ in rows]
    made = table(labels, groups=groups)
    with pytest.warns(UserWarning, match="one group only") if _has_single(made) else nullcontext():
        made = split_table(made, seed=seed)
    homes = {name: {groups[row] for row in made.split(name).tolist()} for name in ("train", "val", "test")}
    assert not homes["train"] & homes["val"] and not homes["train"] & homes["test"] and not homes["val"] & homes["test"]
    assert sorted(torch.cat(list(made.splits.values())).tolist()) == list(range(len(rows)))
    assert set(made.labels[made.split("train")].tolist()) == set(labels)  # nothing is tested that was not trained


def _has_single(made):
    """Whether some class is in one group only."""
    homes = Counter(label for label, _ in set(zip(made.labels.tolist(), made.groups, strict=True)))
    return 1 in homes.values()


def test_given_splits_are_kept_and_a_missing_val_comes_out_of_train():
    given_splits = {"train": torch.arange(0, 90), "test": torch.arange(90, 120)}
    made = split_table(table([k % 3 for k in range(120)], splits=given_splits))
    assert torch.equal(made.split("test"), given_splits["test"])
    assert sorted(torch.cat((made.split("train"), made.split("val"))).tolist()) == list(range(90))
    assert len(made.split("val")) == 10
    assert list(made.splits) == ["train", "val", "test"]
    assert split_table(made) is made


def test_shares_decide_which_splits_there_are():
    assert sizes(split_table(table([0, 1] * 50), {"train": 0.7, "val": 0.3})) == {"train": 70, "val": 30}


def test_a_class_with_one_image_is_named_and_stays_in_train():
    with pytest.warns(UserWarning, match="class 'c1' with one image only"):
        made = split_table(table([0] * 30 + [1]))
    assert 30 in made.split("train").tolist()


def test_a_few_images_fill_every_split_and_too_few_are_refused():
    assert sizes(split_table(table([0, 0, 0, 1, 1, 1]))) == {"train": 4, "val": 1, "test": 1}
    with pytest.raises(ValueError, match="too small for the splits"):
        split_table(table([0, 0]))
    with pytest.raises(ValueError, match="1 groups"), pytest.warns(UserWarning, match="one group only"):
        split_table(table([0] * 50, groups=["only"] * 50))


def test_a_given_split_that_divides_a_group_is_reported():
    made = table([0, 1] * 4, groups=["p"] * 8, splits={"train": torch.arange(6), "test": torch.arange(6, 8)})
    with pytest.warns(UserWarning, match="divide group 'p'"):
        split_table(made, {"train": 0.5, "test": 0.5})


def test_unlabelled_and_multi_label_tables_are_split_too():
    assert sizes(split_table(table([-1] * 50))) == {"train": 40, "val": 5, "test": 5}
    labels = [[1.0, float(k % 10 == 0), 0.0] for k in range(100)] + [[0.0, 0.0, 0.0]] * 20
    made = split_table(table(labels, multi_label=True))
    assert made.labels[made.split("val")][:, 1].sum() == 1 and made.labels[made.split("test")][:, 1].sum() == 1


@pytest.mark.parametrize(
    "shares", [{"val": 1.0}, {"train": 0.5}, {"train": 1.5, "val": -0.5}, {"train": 0.5, "dev": 0.5}]
)
def test_bad_shares_are_refused(shares):
    with pytest.raises(ValueError, match="adding up to 1"):
        split_table(table([0, 1] * 10), shares)


def test_a_table_without_train_cannot_be_carved():
    with pytest.raises(ValueError, match="no train split"):
        split_table(table([0, 1] * 10, splits={"test": torch.arange(20)}))


def files(root: Path, count: int = 60, **different) -> ImageTable:
    items = [root / str(number % 3) / f"{number}.png" for number in range(count)]
    return ImageTable("files", items, torch.arange(count) % 3, ("a", "b", "c"), **different)


def test_a_checksum_tells_whether_images_are_split_as_before():
    table, train = files(Path("/photos")), torch.arange(40)
    same = split_digest(table)
    assert split_digest(files(Path("/elsewhere/moved"))) == same
    flat = [
        ImageTable("flat", [Path(name) / "1.png", Path(name) / "2.png"], torch.zeros(2).long(), ("a",)) for name in "xy"
    ]
    assert split_digest(flat[0]) == split_digest(flat[1])
    others = [
        files(Path("/photos"), count=61),
        replace(table, labels=table.labels.flip(0)),
        replace(table, groups=[str(number // 2) for number in range(60)]),
        replace(table, splits={"train": train, "val": torch.arange(40, 60)}),
        replace(table, splits={"train": train + 20, "val": torch.arange(20)}),
    ]
    assert len({same, *map(split_digest, others)}) == 6
    pixels = torch.zeros(4, 1, 2, 2, dtype=torch.uint8)
    arrays = [ImageTable("array", pixels + value, torch.zeros(4).long(), ("a",), channels=1) for value in (0, 1)]
    assert split_digest(arrays[0]) != split_digest(arrays[1])
