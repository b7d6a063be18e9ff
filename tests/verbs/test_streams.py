"""What the command line does where nobody reads what it prints, or where it cannot be written."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .folders import digit_photos, model_folder

COMMAND = [sys.executable, "-m", "tokenstn.cli"]
FULL = Path("/dev/full")  # every write to it finds the disk full
# Python's own parser of arguments says nothing of a help that was not written as it went along
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}


def started(*arguments: str, **streams) -> subprocess.Popen:
    return subprocess.Popen([*COMMAND, *arguments], **{"stderr": subprocess.PIPE} | streams, text=True, env=ENVIRONMENT)


@pytest.mark.parametrize("stderr", [subprocess.PIPE, subprocess.STDOUT])
@pytest.mark.parametrize("arguments", [["--help"], ["predict", "--help"]])
def test_a_reader_that_left_ends_it_with_its_own_code(arguments, stderr):
    """As ``tokenstn --help | head -0`` and ``tokenstn --help 2>&1 | head -0`` do."""
    with started(*arguments, stdout=subprocess.PIPE, stderr=stderr) as process:
        assert process.stdout is not None
        process.stdout.close()
        said = None if process.stderr is None else process.stderr.read()
    assert process.returncode == 141
    assert said in (None, "tokenstn: nobody reads what it prints any more, so that it ended\n")


@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full here")
def test_a_full_disk_is_said_in_a_sentence():
    with FULL.open("w") as full, started("--help", stdout=full) as process:
        assert process.stderr is not None
        said = process.stderr.read()
    assert process.returncode == 2
    assert said == "tokenstn: what it says cannot be written ([Errno 28] No space left on device)\n"


@pytest.mark.slow
def test_letters_that_an_encoding_has_not_end_nothing(tmp_path):
    model, photos = model_folder(tmp_path / "modèle-✓"), digit_photos(tmp_path / "photos", 2)
    call = ["diagnose", str(model), str(photos), "--accelerator=cpu", "--order=2", "--progress=false"]
    found = subprocess.run(
        [*COMMAND, *call], capture_output=True, text=True, env={**ENVIRONMENT, "PYTHONIOENCODING": "ascii"}, check=False
    )
    assert found.returncode == 0, found.stderr
    assert r"mod\xe8le-\u2713" in found.stdout


@pytest.mark.parametrize("verb", ["train", "diagnose", "serve"])
def test_help_does_not_import_torch(verb):
    script = (
        "import sys; from tokenstn.cli import main\n"
        f"try: main(['{verb}', '--help'])\n"
        "except SystemExit: pass\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
