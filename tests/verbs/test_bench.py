"""``tokenstn bench`` as it is typed."""

import subprocess
import sys
from pathlib import Path

import pytest

from tokenstn.cli import main
from tokenstn.reports.bench import require_free
from tokenstn.verbs.bench import bench

from ..benchmark.tiny import rows, tiny, written
from .folders import few_digits

RESULTS = Path(__file__).parents[2] / "results"


def test_a_dry_run_says_what_there_is_to_do_and_does_nothing(tmp_path, capsys):
    path = written(tmp_path, tiny(methods=rows("vanilla", "stn", "tokenstn")))
    code = main(["bench", path, "--dry", "--accelerator", "cpu", "--cache", str(tmp_path / "c"), "--processes", "1"])
    said = capsys.readouterr().out
    assert code == 0 and not (tmp_path / "c").exists()
    assert "digits: 40 train, 12 val, 12 test" in said and "vanilla, stn, tokenstn" in said
    assert "3 with 1 seed, 0 finished" in said and "6 tasks" in said
    assert main(["bench", path, "--dry", "--methods", "vanilla", "--seeds", "[1,2]", "--accelerator", "cpu"]) == 0
    assert "2 with 2 seeds" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (["bench"], "name an experiment"),
        (["bench", "rotmnits"], "no experiment 'rotmnits'"),
        (["bench", "--data", "no/such/folder", "--accelerator", "cpu"], "--data no/such/folder: there is no data set"),
        (["bench", "rotmnist", "--methods", "stm"], "has no stm"),
        (["bench", "rotmnist", "--processes", "0"], "at least 1"),
        (["bench", "rotmnist", "--accelerator", "tpu"], "cpu, gpu or auto"),
        (["bench", "rotmnist", "--accelerator", "cpu", "--devices", "x"], "--devices x: how many, such as 2"),
        (["bench", "rotmnist", "--seeds", "0,1,0"], "--seeds 0,1,0: one is named twice"),
    ],
)
def test_a_mistake_is_answered_with_a_sentence(call, said, capsys):
    assert main([*call]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("few.json", '{"mine": 1}', "few.json holds no results of tokenstn bench"),
        ("few.json", (RESULTS / "digits.json").read_text(encoding="utf-8"), "is of other images (mnist-mini)"),
        ("few.md", "my notes", "no few.json beside it says what it is of"),
    ],
)
def test_what_is_not_a_result_of_the_same_images_is_not_written_over(tmp_path, capsys, name, content, said):
    data, out = few_digits(tmp_path), tmp_path / "results"
    out.mkdir()
    (out / name).write_text(content, encoding="utf-8")
    call = ["bench", "--data", str(data), "--out", str(out), "--cache", str(tmp_path / "cache"), "--accelerator=cpu"]
    assert main(call) == 2
    assert said in capsys.readouterr().err
    assert [path.read_text(encoding="utf-8") for path in out.iterdir()] == [content]
    assert not (tmp_path / "cache").exists()


def test_results_of_the_same_images_may_be_written_again(tmp_path):
    (tmp_path / "digits.json").write_bytes((RESULTS / "digits.json").read_bytes())
    require_free(tmp_path, "digits", {"mnist-mini": "mnist-mini", "more": "added/since"})
    require_free(tmp_path, "other", {"mnist-mini": "mnist-mini"})


def test_the_function_needs_no_command_line_parser(tmp_path):
    path = written(tmp_path, tiny(methods=rows("vanilla", "stn")))
    call = {"dry": True, "accelerator": "cpu", "cache": str(tmp_path / "cache")}
    script = f"import sys; sys.modules['jsonargparse'] = None; import tokenstn; tokenstn.bench({path!r}, **{call!r})"
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


def test_own_images_are_run_by_the_generic_protocol(tmp_path, capsys):
    bench(data="digits", quick=True, dry=True, accelerator="cpu", cache=str(tmp_path))
    said = capsys.readouterr().out
    assert "digits-quick" in said and "logpolar" in said and "400 train" in said
