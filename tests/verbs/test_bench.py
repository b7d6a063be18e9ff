"""``tokenstn bench`` as it is typed."""

import subprocess
import sys

import pytest

from tokenstn.cli import main
from tokenstn.verbs.bench import bench

from ..benchmark.tiny import rows, tiny, written


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
    ],
)
def test_a_mistake_is_answered_with_a_sentence(call, said, capsys):
    assert main([*call]) == 2
    assert said in capsys.readouterr().err


def test_the_function_needs_no_command_line_parser(tmp_path):
    path = written(tmp_path, tiny(methods=rows("vanilla", "stn")))
    call = {"dry": True, "accelerator": "cpu", "cache": str(tmp_path / "cache")}
    script = f"import sys; sys.modules['jsonargparse'] = None; import tokenstn; tokenstn.bench({path!r}, **{call!r})"
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


def test_own_images_are_run_by_the_generic_protocol(tmp_path, capsys):
    bench(data="digits", quick=True, dry=True, accelerator="cpu", cache=str(tmp_path))
    said = capsys.readouterr().out
    assert "digits-quick" in said and "logpolar" in said and "400 train" in said
