"""Manifests: what each column means, in CSV and in Parquet, and what is refused."""

import pandas as pd
import pytest

from tokenstn.data import ImageDataset, open_images, read_manifest, split_table

from .pictures import picture


def written(folder, columns, kind="csv"):
    """A manifest of these columns, with an image for every path that stays inside."""
    frame = pd.DataFrame(columns)
    for path in frame.get("path", []):
        if path and ".." not in path and not path.startswith("/") and ":" not in path:
            picture(folder / path, (40, 30))
    target = folder / f"list.{kind}"
    frame.to_csv(target, index=False) if kind == "csv" else frame.to_parquet(target)
    return target


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_every_column_is_understood(tmp_path, kind):
    manifest = written(
        tmp_path,
        {
            "path": ["a/1.png", "a/2.png", "b/3.png"],
            "label": ["moth", "", "bee"],
            "split": ["train", "valid", "test"],
            "group": ["t1", "t2", ""],
            "left": [1, 2, 3],
            "top": [0, 0, 0],
            "right": [11, 12, 13],
            "bottom": [10, 10, 10],
        },
        kind,
    )
    table = open_images(manifest)
    assert table.items[0] == tmp_path / "a/1.png"
    assert table.classes == ("bee", "moth") and table.labels.tolist() == [1, -1, 0]
    assert {name: rows.tolist() for name, rows in table.splits.items()} == {"train": [0], "val": [1], "test": [2]}
    assert list(table.groups) == ["t1", "t2", "b/3.png"]
    assert table.boxes.tolist() == [[1, 0, 11, 10], [2, 0, 12, 10], [3, 0, 13, 10]]
    assert not table.multi_label


@pytest.mark.parametrize("group", [["", "", "", "t1"], None])
def test_rows_of_one_photo_are_one_group_where_no_group_is_given(tmp_path, group):
    columns = {"path": ["1.png", "./1.png", "2.png", "3.png"]} | ({} if group is None else {"group": group})
    table = open_images(written(tmp_path, columns))
    assert table.groups[0] == table.groups[1] and len(set(table.groups)) == 3


def test_a_path_is_enough(tmp_path):
    table = open_images(written(tmp_path, {"path": ["1.png", "2.png"]}))
    assert table.labels.tolist() == [-1, -1] and table.classes == () and table.groups is None and table.boxes is None


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_numbers_are_classes_by_their_value_with_or_without_gaps(tmp_path, kind):
    table = open_images(written(tmp_path, {"path": ["1.png", "2.png", "3.png"], "label": [10, 2, None]}, kind))
    assert table.classes == ("2", "10") and table.labels.tolist() == [1, 0, -1]


def test_the_order_of_the_classes_can_be_given_and_another_label_is_refused(tmp_path):
    manifest = written(tmp_path, {"path": ["1.png", "2.png"], "label": ["a", "b"]})
    assert read_manifest(manifest, classes=["b", "a"]).labels.tolist() == [1, 0]
    with pytest.raises(ValueError, match="label 'b', which is none of the 2 classes a, c"):
        read_manifest(manifest, classes=["a", "c"])


def test_several_labels_are_separated_by_semicolons(tmp_path):
    table = open_images(written(tmp_path, {"path": [f"{k}.png" for k in range(4)], "label": ["x;y", "y", "", ";"]}))
    assert table.multi_label and table.classes == ("x", "y")
    assert table.labels.tolist() == [[1, 1], [0, 1], [-1, -1], [0, 0]]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_several_labels_may_be_a_vector(tmp_path, kind):
    manifest = written(tmp_path, {"path": ["1.png", "2.png"], "label": [[1, 0, 1], [0, 1, 1]]}, kind)
    table = read_manifest(manifest, classes=["x", "y", "z"])
    assert table.multi_label and table.labels.tolist() == [[1, 0, 1], [0, 1, 1]] and table.classes == ("x", "y", "z")
    assert open_images(manifest).classes == ("0", "1", "2")


def test_the_specimens_of_one_photo_stay_in_one_split(tmp_path):
    photos = [f"{k // 4}.png" for k in range(40)]
    boxes = {"left": [k % 4 * 10 for k in range(40)], "top": [0] * 40, "bottom": [9.5] * 40}
    table = read_manifest(written(tmp_path, {"path": photos, **boxes, "right": [k % 4 * 10 + 10 for k in range(40)]}))
    made = split_table(table)
    homes = [{photos[row] for row in rows.tolist()} for rows in made.splits.values()]
    assert sum(map(len, homes)) == 10
    assert table.boxes[0].tolist() == [0, 0, 10, 10]  # outward to whole pixels


def test_a_box_may_be_left_out(tmp_path):
    columns = {"path": ["1.png", "2.png"], "left": [5, None], "top": [5, None], "right": [9, None], "bottom": [9, None]}
    table = read_manifest(written(tmp_path, columns))
    assert table.boxes.tolist() == [[5, 5, 9, 9], [-1, -1, -1, -1]]
    assert ImageDataset(table, size=(4, 4))[1]["photo_size"].tolist() == [30, 40]


def test_unknown_columns_are_listed(tmp_path):
    with pytest.warns(UserWarning, match="ignored columns 'lable', 'date'"):
        read_manifest(written(tmp_path, {"path": ["1.png"], "lable": ["a"], "date": ["now"]}))


BOX = {"left": ["1"], "top": ["1"], "right": ["5"], "bottom": ["5"]}


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"path": ["../1.png"]}, r"'../1.png', which leaves its folder"),
        ({"path": ["a/../../1.png"]}, "leaves its folder"),
        ({"path": ["/etc/passwd"]}, "leaves its folder"),
        ({"path": ["C:\\photos\\1.png"]}, "leaves its folder"),
        ({"path": ["..\\1.png"]}, "leaves its folder"),
        ({"file": ["1.png"]}, r"no column 'path' \(it has file\)"),
        ({"path;label": ["1.png;cat"]}, "separated by commas, not by semicolons"),
        ({"path": ["1.png", ""], "label": ["a", "b"]}, "row 2 has no path"),
        ({"path": ["1.png", "2.png"], "split": ["train", ""]}, "row 2 has the split ''"),
        ({"path": ["1.png"], "split": ["dev"]}, "split 'dev'; use train"),
        ({"path": ["1.png"], "left": [1]}, "needs all of left, top, right, bottom"),
        ({"path": ["1.png"], **BOX, "top": ["x"]}, r"row 1 has the box \['1', 'x', '5', '5'\]"),
        ({"path": ["1.png"], **BOX, "right": ["0"]}, "left < right"),
        ({"path": ["1.png", "2.png"], "label": ["[0, 1]", "[1]"]}, "row 2 has the label"),
        ({"path": ["1.png", "2.png"], "label": ["[0, 1]", "cat"]}, "row 2 has the label cat"),
        ({"path": ["1.png"], "label": ["[0, 7]"]}, "2 times 0 or 1"),
        ({"path": pd.Series([], dtype=str)}, "lists no image"),
    ],
)
def test_what_is_wrong_with_a_manifest_is_said(tmp_path, columns, reason):
    with pytest.raises(ValueError, match=reason):
        read_manifest(written(tmp_path, columns))


def test_a_missing_a_broken_and_a_misplaced_manifest_are_refused(tmp_path):
    with pytest.raises(ValueError, match="there is no manifest"):
        read_manifest(tmp_path / "absent.csv")
    (tmp_path / "broken.parquet").write_bytes(b"not parquet")
    with pytest.raises(ValueError, match="not a readable CSV or Parquet"):
        read_manifest(tmp_path / "broken.parquet")
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(ValueError, match="not a readable CSV or Parquet"):
        read_manifest(tmp_path / "empty.csv")
    (tmp_path / "lost.csv").write_text("path\n1.png\n2.png\n")
    with pytest.raises(ValueError, match="paths are relative to"):
        read_manifest(tmp_path / "lost.csv")
