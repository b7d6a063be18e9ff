"""Documents as nobody should write them: mutants of JSON, YAML, safetensors and ONNX, and files that want to run code.

A document is changed as a tree (a key goes, a value becomes another one) or as bytes (as ``wild_files`` does it).
"""

from __future__ import annotations

import copy
import json
import math
import pickle
import random
import struct
from collections.abc import Callable, Iterator
from typing import Any

import wild_files

HUGE = 10**12
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3.5, 1e-300, 1e308, math.nan, math.inf, -math.inf, 70_000, 10**6, 2**31, 2**63,
    HUGE, 10**30, "", "x", "rotation", "auto", "9" * 5000, "x" * 100_000, "../../etc/passwd", "/etc/passwd", "..",
    "hf-hub:a/b", "local-dir:/tmp", "http://127.0.0.1:9/x", "evil.Class", "__import__('evil')", "\0", "\udce9",
    "!!python/object/apply:os.system ['touch executed']", [], {}, [[]], [0], [-1, -1], [1, 1], [HUGE, HUGE], [None],
    [70_000] * 2, ["x", "x"], {"a": 1}, {"__class__": "os.system"}, {"class_path": "evil.Class", "init_args": {}},
    {"class": "evil.Class"}, [1] * 100_000,
)  # fmt: skip


def changed(chance: random.Random, document: Any) -> Any:
    """A copy of a tree of dicts and lists with one thing in it that is not as it was."""
    document = copy.deepcopy(document)
    parents = [parent for parent in _parents(document) if len(parent)]
    if not parents:
        return chance.choice(VALUES)
    parent = chance.choice(parents)
    key = chance.choice(list(parent) if isinstance(parent, dict) else list(range(len(parent))))
    what = chance.choice(("value", "value", "value", "gone", "added", "renamed", "wrapped", "swapped", "scaled"))
    if what == "gone":
        del parent[key]
    elif what == "added":
        if isinstance(parent, dict):
            parent[str(chance.choice(("surprise", "", "class", "format", "pretrained", "extends")))] = chance.choice(
                VALUES
            )
        else:
            parent.insert(0, chance.choice(VALUES))
    elif what == "renamed" and isinstance(parent, dict):
        parent[f"{key}s"] = parent.pop(key)
    elif what == "wrapped":
        parent[key] = [parent[key]]
    elif what == "swapped":
        other = chance.choice(parents)
        parent[key] = copy.deepcopy(other)
    elif what == "scaled" and isinstance(parent[key], int | float) and not isinstance(parent[key], bool):
        parent[key] *= chance.choice((-1, 0, 2, 1000, 10**6, 10**9, 0.5))
    else:
        parent[key] = chance.choice(VALUES)
    return document


def json_mutants(document: Any, count: int, first: int = 0) -> Iterator[bytes]:
    """As many mutants of a JSON file: two of three as a tree, the others as bytes."""
    for index in range(first, first + count):
        chance = random.Random(index)
        if index % 3 == 0:
            yield as_bytes(chance, json.dumps(document, indent=1).encode())
            continue
        mutant = document
        for _ in range(chance.choice((1, 1, 2))):
            mutant = changed(chance, mutant)
        yield json.dumps(mutant).encode("utf-8", errors="surrogatepass")


def as_bytes(chance: random.Random, content: bytes) -> bytes:
    """The bytes with something wrong in them."""
    for _ in range(chance.choice((1, 1, 2))):
        content = chance.choice(BLIND)(chance, content)
    return content


def json_bombs() -> dict[str, bytes]:
    """Texts that a parser believes to its end."""
    return {
        "brackets": b"[" * 200_000,
        "closed brackets": b"[" * 100_000 + b"]" * 100_000,
        "nested objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        "digits": b'{"format": ' + b"9" * 100_000 + b"}",
        "same key": b'{"format": 1, ' * 1 + b", ".join(b'"format": 1' for _ in range(50_000)) + b"}",
        "nothing": b"",
        "not text": b"\xff\xfe\x00{",
        "zeros": bytes(10_000),
    }


def yaml_bombs() -> dict[str, bytes]:
    """What YAML can do beyond settings."""
    laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    laughs += "".join(f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 10)}]\n" for k in range(1, 12))
    return {
        "python object": b"title: !!python/object/apply:os.system ['touch executed']\n",
        "python name": b"title: !!python/name:os.system\n",
        "python module": b"data: !!python/module:antigravity\n",
        "python tuple": b"seeds: !!python/tuple [1, 2]\n",
        "billion laughs": laughs.encode(),
        "circle": b"data: &a {source: *a}\n",
        "circle of lists": b"data: &a [*a]\n",
        "brackets": b"[" * 100_000,
        "braces": b"{a: " * 50_000,
        "indents": b"".join(b" " * k + b"a:\n" for k in range(3000)),
        "no date": b"title: 2024-99-99\n",
        "binary": b"title: !!binary AAAA\n",
        "set": b"data: !!set {a, b}\n",
        "keys": b"? [a, b]\n: 1\n",
        "two documents": b"a: 1\n---\nb: 2\n",
        "not text": b"\xff\xfe\x00{",
        "control": b"title: \x07\n",
        "empty": b"",
        "itself": b"extends: itself\n",
        "elsewhere": b"extends: ../../etc/passwd\n",
        "absolute": b"extends: /etc/passwd\n",
        "a list to extend": b"extends: [a]\n",
    }


def safetensors_mutants(content: bytes, count: int, first: int = 0) -> Iterator[bytes]:
    """The file with a changed header, whose length is right, or with changed bytes."""
    (length,) = struct.unpack("<Q", content[:8])
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    for index in range(first, first + count):
        chance = random.Random(index)
        if index % 3 == 0:
            yield as_bytes(chance, content)
        elif index % 3 == 1:
            written = json.dumps(changed(chance, header)).encode("utf-8", errors="surrogatepass")
            yield struct.pack("<Q", len(written)) + written + data
        else:
            tensors = {name: dict(about) for name, about in header.items() if name != "__metadata__"}
            _lie(chance, tensors)
            written = json.dumps(tensors).encode()
            yield struct.pack("<Q", chance.choice((len(written), len(written), 2**63, 2**40, 0))) + written + data


def metadata_mutants(metadata: dict[str, str], count: int, first: int = 0) -> Iterator[dict[str, str]]:
    """The texts that an exported file keeps about itself, of which each is JSON."""
    document = {key: json.loads(value) for key, value in metadata.items()}
    for index in range(first, first + count):
        chance = random.Random(index)
        if index % 3:
            mutant = changed(chance, document)
            mutant = mutant if isinstance(mutant, dict) else {"format": mutant}
            yield {str(key): json.dumps(value) for key, value in mutant.items()}
        else:
            key = chance.choice(list(metadata))
            yield {**metadata, key: as_bytes(chance, metadata[key].encode()).decode("latin-1")}


class Malicious:
    """Whoever unpickles it makes a file: the proof that code of a file was run."""

    def __init__(self, proof: str) -> None:
        self.proof = proof

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, str]]:
        return open, (self.proof, "w")


def malicious_pickle(proof: str) -> bytes:
    """A pickle of it."""
    return pickle.dumps({"weights": Malicious(proof)})


def _lie(chance: random.Random, tensors: dict[str, Any]) -> None:
    """Say something about a tensor that is not so."""
    about = tensors[chance.choice(list(tensors))]
    start, end = about["data_offsets"]
    lie = chance.choice(("shape", "dtype", "beyond", "overlap", "backwards", "huge", "negative", "fraction"))
    if lie == "shape":
        about["shape"] = [*about["shape"], chance.choice((0, 1, 2, 2**31, 2**62))]
    elif lie == "dtype":
        about["dtype"] = chance.choice(("F64", "F16", "BOOL", "I8", "F4", "X", "", "f32"))
    elif lie == "huge":
        about["shape"] = [2**31, 2**31]
    elif lie == "fraction":
        about["shape"] = [1.5]
    else:
        about["data_offsets"] = {
            "beyond": [start, 2**50], "overlap": [0, end], "backwards": [end, start], "negative": [-8, end],
        }[lie]  # fmt: skip


def _parents(document: Any) -> Iterator[Any]:
    if isinstance(document, dict | list):
        yield document
        for item in document.values() if isinstance(document, dict) else document:
            yield from _parents(item)


BLIND = tuple(mutation for mutation in wild_files.MUTATIONS if mutation.__name__ not in ("_spliced", "_sealed"))
