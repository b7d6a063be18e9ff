"""Weights from the hub: a machine without a network is told at once, and nobody reads about retries."""

import logging
import socket

import pytest
import timm
from huggingface_hub import constants

from tokenstn.models import hub_access
from tokenstn.models.pretrained import fetched


def unknown(*_, **__):
    raise socket.gaierror(-2, "Name or service not known")


@pytest.fixture
def no_network(monkeypatch, tmp_path):
    """No name can be looked up, nothing is in the cache, and no proxy is set."""
    monkeypatch.setattr("socket.getaddrinfo", unknown)
    monkeypatch.setattr(hub_access, "getproxies", dict)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    return tmp_path


@pytest.fixture
def created(monkeypatch):
    """The names that timm was asked for."""
    asked = []
    monkeypatch.setattr("timm.create_model", lambda name, **_: asked.append(name))
    return asked


def test_without_a_network_the_weights_are_not_asked_for(no_network, created):
    with pytest.raises(ValueError, match=r"resnet18 could not be fetched \(.+ cannot be looked up.+\): connect once$"):
        fetched("resnet18", "connect once")
    assert created == []


def test_without_a_network_what_is_in_the_cache_is_used(no_network, created):
    settings = timm.get_pretrained_cfg("resnet18")
    assert settings is not None and settings.hf_hub_id is not None
    kept = no_network / f"models--{settings.hf_hub_id.replace('/', '--')}" / "snapshots" / "0123"
    kept.mkdir(parents=True)
    (kept / "model.safetensors").write_bytes(b"")
    fetched("resnet18", "connect once")
    assert created == ["resnet18"]


def test_a_proxy_looks_names_up_itself(no_network, created, monkeypatch):
    monkeypatch.setattr(hub_access, "getproxies", lambda: {"https": "proxy:80"})
    fetched("resnet18", "connect once")
    assert created == ["resnet18"]


def test_retries_are_not_shown_and_errors_are(monkeypatch, caplog):
    logger = logging.getLogger("huggingface_hub.utils._http")
    monkeypatch.setattr(logging.getLogger("huggingface_hub"), "propagate", True)  # so that caplog sees it
    with hub_access.quiet_hub():
        logger.warning("Retrying in 1s [Retry 1/5].")
        logger.error("it broke")
    logger.warning("as before")
    assert [record.getMessage() for record in caplog.records] == ["it broke", "as before"]
