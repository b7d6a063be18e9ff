"""A long job in shards of consecutive images: each is on disk as a whole or has still to be done.

So a job may stop at any moment and loses the shards in work at most; started again it goes on with the missing ones.
The images that could not be read are kept inside the file of their shard, so that none is lost or doubled either.
"""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tokenstn.system.documents import read_json
from tokenstn.system.files import remove_unfinished, require_writable, write_text, written_whole

REJECTED = "rejected.csv"
# what may differ when a job goes on: who wrote it, and what things are called
FREE = ("tokenstn", "model_name", "images_name", "images")  # the last is part of images_sha256
_KEY = b"rejected"

Rejected = tuple[str, str]  # name of an image, and why it could not be read


@dataclass(frozen=True)
class ShardFolder:
    """The folder of a job.

    settings: what the job depends on, kept in ``settings_file``; a job goes on only with the same. parts: the folder,
    inside this one, of ``part-000000.parquet`` and so on; shard k holds images k · shard_size and the next. derived:
    files that jobs of this kind make of all shards at the end, beside ``rejected.csv``; writes: those of them that this
    one makes. beside: a folder that results go to one by one.
    """

    folder: Path
    settings_file: str
    parts: str
    images: int
    shard_size: int
    settings: Mapping[str, Any]
    derived: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    beside: str | None = None

    def __len__(self) -> int:
        return -(-self.images // self.shard_size)

    def rows(self, shard: int) -> range:
        """The images of a shard."""
        return range(shard * self.shard_size, min((shard + 1) * self.shard_size, self.images))

    def part(self, shard: int) -> Path:
        """Where a shard is, or will be."""
        return self.folder / self.parts / f"part-{shard:06d}.parquet"

    def require_same(self, overwrite: bool = False) -> None:
        """Refuse a folder with files of somebody else, and to go on with what was begun with other images, another
        model or other settings, unless that is to be overwritten.
        """
        if self.folder.exists() and not self.folder.is_dir():
            raise FileExistsError(f"{self.folder} is a file, and results go into a folder: choose another --out")
        started = self._started()
        self._require_nothing_of_others(started)
        if started is None or overwrite:
            return
        other = [name for name in self.settings if name not in FREE and started.get(name) != self.settings[name]]
        if other:
            said = "; ".join(_difference(name, started, self.settings) for name in other)
            raise ValueError(
                f"{self.folder} was begun with {said}: go on with the same, choose another --out, or begin anew with "
                "--overwrite=true"
            )

    def begin(self, overwrite: bool = False) -> None:
        """Make the folder and keep the settings; ``overwrite`` removes what an earlier job left, and nothing else."""
        require_writable(self.folder)
        started = self._started()
        if overwrite and started is not None:
            shutil.rmtree(self.folder / self.parts, ignore_errors=True)
        (self.folder / self.parts).mkdir(parents=True, exist_ok=True)
        written = self._written(started)
        if self.missing():  # what was made of all shards is of others
            for name in written:
                (self.folder / name).unlink(missing_ok=True)
        remove_unfinished(self.folder)
        settings = {**self.settings, "writes": sorted({*written, *self.writes, REJECTED})}
        write_text(self.folder / self.settings_file, json.dumps(settings, indent=2) + "\n")

    def missing(self) -> list[int]:
        """The shards that are not there yet."""
        return [shard for shard in range(len(self)) if not self.part(shard).exists()]

    def write(self, shard: int, table: pa.Table, rejected: Sequence[Rejected]) -> None:
        """Keep a shard: its rows, and the images that have none."""
        if len(table) + len(rejected) != len(self.rows(shard)):
            raise RuntimeError(f"shard {shard} has {len(table)} rows and {len(rejected)} rejected images: a mistake")
        noted = {**(table.schema.metadata or {}), _KEY: json.dumps(rejected).encode()}
        with written_whole(self.part(shard)) as beside:
            pq.write_table(table.replace_schema_metadata(noted), beside)

    def read(self, columns: Sequence[str] | None) -> Iterator[pa.Table]:
        """These columns of every shard, one after the other, those that there are; all of them when None."""
        for shard in range(len(self)):
            file = pq.ParquetFile(self.part(shard))
            there = file.schema_arrow.names
            yield file.read(there if columns is None else [name for name in columns if name in there])

    def rejected(self) -> Iterator[Rejected]:
        """The images of every shard that could not be read."""
        for shard in range(len(self)):
            noted = pq.read_schema(self.part(shard)).metadata or {}
            yield from ((name, reason) for name, reason in json.loads(noted.get(_KEY, b"[]")))

    def write_rejected(self) -> int:
        """``rejected.csv``, and how many images it lists; written anew from the shards every time."""
        text = io.StringIO()
        lines = csv.writer(text, lineterminator="\n")
        lines.writerow(("path", "reason"))
        found = list(self.rejected())
        lines.writerows(found)
        write_text(self.folder / REJECTED, text.getvalue())
        return len(found)

    def _require_nothing_of_others(self, started: Mapping[str, Any] | None) -> None:
        """``started``: the settings that are there, which say what is this job's."""
        folders = [name for name in (self.parts, self.beside) if name is not None and started is None]
        there = [name for name in folders if any((self.folder / name).glob("*"))]
        ours = self._written(started)
        there += [name for name in (REJECTED, *self.writes) if (self.folder / name).exists() and name not in ours]
        if there:
            raise FileExistsError(
                f"{self.folder} holds {' and '.join(there)} already, of which no {self.settings_file} says what it is "
                "of, and which would be written over: choose another --out"
            )

    def _written(self, started: Mapping[str, Any] | None) -> list[str]:
        """Which files a job that was begun here has made, or was to make, of all shards; no other name is believed."""
        if started is None:
            return []
        named = started.get("writes", self.writes)  # versions before did not say
        if not isinstance(named, list | tuple):
            raise ValueError(f"{self.folder / self.settings_file} is not what it was: choose another --out")
        return [name for name in (REJECTED, *self.derived) if name == REJECTED or name in named]

    def _started(self) -> dict[str, Any] | None:
        path = self.folder / self.settings_file
        if not path.is_file():
            return None
        try:
            found = read_json(path)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise ValueError(f"{path} is not what it was: remove {self.folder}, or choose another --out")
        return found


def _difference(name: str, started: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    if name == "model_sha256":
        return f"another model ({started.get('model_name')})"
    if name == "images_sha256":
        there, here = (settings.get("images") for settings in (started, now))
        counts = f"{there:,} then, {here:,} now" if isinstance(there, int) and there != here else "as many"
        return f"other images ({started.get('images_name')}; {counts})"
    return f"{name}={started.get(name)!r}, not {now[name]!r}"
