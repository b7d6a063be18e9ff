"""Pages that run: each block once and in order, what it put out behind it, and a block that breaks is named."""

import os
import time
from pathlib import Path

import pytest
from pagerun import PageFailedError, cells_of, render
from pagerun import execute as executing
from pagerun.execute import ran_page, run_markdown


def block(language: str, code: str) -> str:
    return f"```{language}\n{code}\n```\n"


def run(*blocks: str):
    return run_markdown("\n".join(blocks), "page.md")


def test_the_output_stands_behind_its_block():
    page = "# A page\n\n" + block("python", "print(6 * 7)") + "\nThe end.\n"
    shown = render(page, run(page).outputs)
    assert shown.index("print(6 * 7)") < shown.index("\n42\n") < shown.index("The end.")
    assert shown.count("42") == 1


def test_a_block_without_output_has_none():
    page = block("python", "x = 1")
    assert "output" not in render(page, run(page).outputs)


def test_python_blocks_share_one_session_and_commands_its_folder():
    found = run(
        block("python", "from pathlib import Path\nPath('note.txt').write_text('left here')"),
        block("sh", "cat note.txt"),
        block("python", "print(Path('note.txt').exists())"),
    )
    assert found.outputs == ["", "left here", "True\n"]


def test_what_a_child_process_prints_is_caught_too():
    assert run(block("python", "import os\nos.system('echo from below')")).outputs == ["from below\n"]


def test_modules_that_a_page_writes_can_be_imported():
    found = run(block("sh", "echo 'answer = 42' > own.py"), block("python", "import own\nprint(own.answer)"))
    assert found.outputs[1] == "42\n"


@pytest.mark.parametrize("language", ["python", "sh"])
def test_a_block_that_fails_is_named_with_its_page_and_line(language):
    broken = {"python": "raise ValueError('no such thing')", "sh": "echo no such thing; exit 3"}[language]
    with pytest.raises(PageFailedError, match=r"page.md, line 5: this block failed\n.*no such thing"):
        run(block("python", "x = 1"), block(language, broken))


def test_a_command_fails_where_any_of_its_parts_does():
    with pytest.raises(PageFailedError, match="this block failed"):
        run(block("sh", "false | true\necho done"))


def test_a_block_that_should_fail_must():
    assert run(block("sh fails", "echo why; exit 2")).outputs == ["why\n"]
    with pytest.raises(PageFailedError, match="should have failed and did not"):
        run(block("sh fails", "true"))


def test_a_marked_block_is_shown_and_not_run():
    page = block("sh norun", "exit 1") + block("python", "print('after')")
    assert "exit 1" in (shown := render(page, run(page).outputs)) and "norun }" in shown and "after" in shown


def test_a_server_runs_with_the_page_and_ends_with_it(tmp_path):
    note = tmp_path / "pid"
    server = f"echo $$ > {note}; echo ready; exec sleep 300"
    found = run(block("sh until=ready", server), block("sh", f"kill -0 $(cat {note}) && echo alive"))
    assert found.outputs == ["ready\n", "alive\n"]
    pid = int(note.read_text())
    for _ in range(50):
        if not Path(f"/proc/{pid}").exists() or "zombie" in Path(f"/proc/{pid}/status").read_text():
            break
        time.sleep(0.1)
    else:
        os.kill(pid, 9)
        pytest.fail("the server outlived its page")


def test_a_server_that_ends_at_once_is_a_failure():
    with pytest.raises(PageFailedError, match="port is taken"):
        run(block("sh until=ready", "echo port is taken; exit 1"))


def test_files_that_the_page_shows_are_kept_and_others_are_not():
    found = run(block("sh", "mkdir out; echo picture > out/a.png; echo other > b.png"), "![a picture](out/a.png)")
    assert found.files == {"out/a.png": b"picture\n"}


def test_a_block_inside_another_element_keeps_its_place():
    page = '??? example "code"\n    ```python\n    if True:\n        print("deep")\n    ```\n'
    assert cells_of(page)[0].code == 'if True:\n    print("deep")\n'
    assert "\n    deep\n" in render(page, run(page).outputs)


@pytest.mark.parametrize(("words", "reason"), [("python skip", "norun, fails or until=WORD"), ("python until=x", "sh")])
def test_an_unknown_word_is_refused_with_its_line(words, reason):
    with pytest.raises(ValueError, match=f"line 1: .*{reason}"):
        cells_of(block(words, "1"))


def test_a_page_is_run_again_only_when_its_code_changed(tmp_path, monkeypatch):
    docs, runs = tmp_path / "docs", tmp_path / "runs"
    docs.mkdir()
    monkeypatch.setattr(executing, "DOCS", docs)
    monkeypatch.setattr(executing, "KEPT", tmp_path / "kept")
    page = docs / "page.md"
    page.write_text(block("sh", f"echo run >> {runs}; echo out > made.png") + "![made](made.png)")
    first, second = ran_page("page.md"), ran_page("page.md")
    assert first == second and first.files == {"made.png": b"out\n"} and runs.read_text() == "run\n"
    page.write_text("Other words first.\n\n" + page.read_text())
    assert ran_page("page.md") == first and runs.read_text() == "run\n"
    page.write_text(page.read_text() + "\n\n" + block("sh", "echo more"))
    assert ran_page("page.md").outputs == ["", "more\n"] and runs.read_text() == "run\nrun\n"


def test_nothing_is_kept_of_a_page_that_failed(tmp_path, monkeypatch):
    monkeypatch.setattr(executing, "DOCS", tmp_path)
    monkeypatch.setattr(executing, "KEPT", tmp_path / "kept")
    (tmp_path / "page.md").write_text(block("sh", "false"))
    for _ in range(2):
        with pytest.raises(PageFailedError):
            ran_page("page.md")
    assert not list((tmp_path / "kept").glob("*.json"))
