"""Folders that several files of tests start from."""

from pathlib import Path

import pytest

from .classifiers import ALL
from .flags import some_thresholds
from .model_folders import SETTINGS, model_of


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> Path:
    """A folder with everything in it, to be copied and broken."""
    folder = tmp_path_factory.mktemp("good")
    model_of(
        primitives=ALL,
        preprocessing=SETTINGS,
        classes=list("abcde"),
        thresholds=some_thresholds(),
        localization_size=(16, 16),
    ).save_pretrained(folder)
    return folder


@pytest.fixture
def folder(good, tmp_path) -> Path:
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((good / name).read_bytes())
    return tmp_path
