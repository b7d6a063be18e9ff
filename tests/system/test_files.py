"""A file is there as a whole or not at all, and an error of the disk is a sentence that leaves what was there."""

import errno

import pytest

from tokenstn.system.files import (
    NotWrittenError,
    in_words,
    remove_unfinished,
    require_writable,
    was_cut_off,
    write_text,
    written_together,
    written_whole,
)

from .small_disk import make_read_only, small_disk


def everything(folder) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


class PowerCutError(Exception):
    pass


def cut_while_writing(path) -> None:
    path.write_text("half of")
    raise PowerCutError


def test_a_file_is_replaced_as_a_whole_and_odd_names_are_written(tmp_path):
    path = write_text(tmp_path / "a.txt", "first")
    write_text(path, "second \udcff")
    assert path.read_text(encoding="utf-8") == "second \\udcff"
    with pytest.raises(PowerCutError), written_whole(path) as beside:
        cut_while_writing(beside)
    assert everything(tmp_path) == {"a.txt": "second \\udcff"}


def test_several_files_come_together_and_the_last_one_says_so(tmp_path):
    (tmp_path / "figures").mkdir()
    for name in ("done.json", "figures/old.csv", "mine.txt"):
        (tmp_path / name).write_text("old")
    with pytest.raises(PowerCutError), written_together(tmp_path, last="done.json") as place:
        cut_while_writing(place / "report.html")
    assert everything(tmp_path) == {"done.json": "old", "figures/old.csv": "old", "mine.txt": "old"}
    with written_together(tmp_path, last="done.json", instead_of=[tmp_path / "figures" / "old.csv"]) as place:
        (place / "figures").mkdir()
        for name in ("done.json", "figures/new.csv", "report.html"):
            (place / name).write_text("new")
    found = everything(tmp_path)
    assert found == {"done.json": "new", "figures/new.csv": "new", "report.html": "new", "mine.txt": "old"}


def test_what_was_cut_off_while_files_moved_says_so_until_it_is_made_good(tmp_path):
    (tmp_path / "answers").write_text("old")
    (tmp_path / "figures").write_text("a file where a folder is to be")

    def all_of_them() -> None:
        with written_together(tmp_path, last="done.json") as place:
            (place / "figures").mkdir()
            for name in ("answers", "done.json", "figures/new.csv"):
                (place / name).write_text("new")

    with pytest.raises(OSError, match="figures"):
        all_of_them()
    assert (tmp_path / "answers").read_text() == "new" and was_cut_off(tmp_path)
    (tmp_path / "figures").unlink()
    remove_unfinished(tmp_path, deep=False)
    all_of_them()
    assert everything(tmp_path) == {"answers": "new", "done.json": "new", "figures/new.csv": "new"}
    assert not was_cut_off(tmp_path)


def test_what_a_killed_process_left_half_is_removed_and_nothing_else(tmp_path):
    (tmp_path / "deep" / ".together.unfinished-x1").mkdir(parents=True)
    (tmp_path / "deep" / ".together.unfinished-x1" / "a.txt").write_text("half")
    (tmp_path / ".b.unfinished-12-34.txt").write_text("half")
    (tmp_path / "unfinished-novel.txt").write_text("mine")
    remove_unfinished(tmp_path)
    assert everything(tmp_path) == {"unfinished-novel.txt": "mine"}


def test_a_full_disk_is_a_sentence_and_the_old_file_stays(tmp_path):
    with small_disk(tmp_path / "disk", kilobytes=64) as disk:
        write_text(disk / "a.txt", "old")
        with pytest.raises(NotWrittenError, match=r"a\.txt could not be written, because the disk is full") as raised:
            write_text(disk / "a.txt", "x" * 100_000)
        assert raised.value.errno == errno.ENOSPC
        with pytest.raises(NotWrittenError, match="disk is full"), written_together(disk, last="a.txt") as place:
            (place / "a.txt").write_text("y" * 100_000)
        assert everything(disk) == {"a.txt": "old"}


def test_a_read_only_folder_is_refused_before_anything_is_done(tmp_path):
    with small_disk(tmp_path / "disk", kilobytes=64) as disk:
        require_writable(disk / "not" / "there" / "yet")
        assert not (disk / "not").exists()
        make_read_only(disk)
        with pytest.raises(NotWrittenError, match="read-only: choose another place"):
            require_writable(disk / "not" / "there" / "yet")


def test_a_file_where_a_folder_should_be_is_refused(tmp_path):
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(FileExistsError, match="is a file, and results go into a folder"):
        require_writable(tmp_path / "taken" / "run")


def test_errors_that_no_advice_is_known_for_stay_as_they_are(tmp_path):
    with pytest.raises(FileNotFoundError), in_words(tmp_path):
        (tmp_path / "nowhere").read_text()
