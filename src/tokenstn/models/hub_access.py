"""The hub that timm fetches weights from: asked without its chatter, and not for a minute where there is no network."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies

import timm
from huggingface_hub import constants
from huggingface_hub.file_download import repo_folder_name


@contextmanager
def quiet_hub() -> Iterator[None]:
    """No lines about each try of a download in this block: what fails in the end raises."""
    logger = logging.getLogger("huggingface_hub")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def require_reachable(name: str) -> None:
    """Refuse to fetch the weights of a timm model where the hub's name cannot be looked up and nothing is in the cache.

    huggingface_hub has no setting for it, and would try both files that timm asks for six times.
    """
    settings = timm.get_pretrained_cfg(name, allow_unregistered=True)
    repository = None if settings is None else settings.hf_hub_id
    host = urlsplit(constants.ENDPOINT).hostname
    if repository is None or host is None or constants.HF_HUB_OFFLINE or _in_cache(repository):
        return
    if not can_be_looked_up(host):
        raise OSError(f"{host} cannot be looked up, this machine seems to be offline")


def can_be_looked_up(host: str) -> bool:
    """Whether the address of a host can be had; a proxy would look it up itself."""
    if getproxies():
        return True
    try:
        socket.getaddrinfo(host, None)
    except socket.gaierror:
        return False
    return True


def _in_cache(repository: str) -> bool:
    """Whether any file of a repository, ``owner/name``, was fetched before."""
    kept = Path(constants.HF_HUB_CACHE) / repo_folder_name(repo_id=repository, repo_type="model") / "snapshots"
    return any(kept.glob("*/*"))
