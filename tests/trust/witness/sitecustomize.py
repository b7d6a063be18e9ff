"""Python imports this by itself when the folder is on its path: the process and its children are watched."""

import os

import outgoing


def write(what: str) -> None:
    with os.fdopen(os.open(os.environ[outgoing.LOG], os.O_WRONLY | os.O_APPEND | os.O_CREAT), "a") as log:
        log.write(f"{what}\n")


if outgoing.LOG in os.environ:
    outgoing.refuse(write)
