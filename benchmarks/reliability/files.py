"""Files from the wild through loading, predict, rectify and the server: no crash, no hang, each refused one named.

    python benchmarks/reliability/files.py                  # 12,000 mutants, a few minutes on one core
    python benchmarks/reliability/files.py --mutants 500    # to try it

Every step is a process of its own, so that a crash in a decoder is seen as one. The folder that is made holds the
mutants, the good files that they come from, files that are no images, decompression bombs, names of all kinds, links
that lead nowhere or round in circles, a pipe, a device, a sparse file of 3 GB, and a folder that may not be listed.
"""

from __future__ import annotations

import argparse
import base64
import csv
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import wild_files as wild
from record import Drill
from small_model import saved_model

SLOW = 10.0  # seconds for one file that count as a hang
NOBODY = 65534
SEVERAL = "wild"  # the folder of everything
REFUSALS = (400, 413, 415, 422)


def lay_out(folder: Path, mutants: int) -> int:
    """Write the folder; the number of files in it that are called images."""
    folder.mkdir()
    written = 0
    for name, content in {**wild.images(), **wild.not_images(), **wild.bombs()}.items():
        (folder / name).write_bytes(content)
        written += 1
    for index, (name, content) in enumerate(wild.mutants(mutants)):
        home = folder / f"{index // 1000:03d}"
        home.mkdir(exist_ok=True)
        (home / name).write_bytes(content)
        written += 1
    good = wild.images()["PNG-RGB.png"]
    for name in wild.odd_names():
        for content, prefix in ((good, b""), (good[:60], b"broken ")):
            place = os.fsencode(folder) + b"/" + prefix + name[len(prefix) * (len(name) > 200) :]
            with open(place, "wb") as file:
                file.write(content)
            written += 1
    for name, target in {
        "dangling.png": "absent.png", "circle.png": "circle.png", "link.png": "PNG-RGB.png", "device.png": "/dev/zero",
    }.items():  # fmt: skip
        os.symlink(target, folder / name)
        written += 1
    os.symlink(folder, folder / "again")  # a folder inside itself
    os.mkfifo(folder / "pipe.png")
    with (folder / "sparse.tif").open("wb") as file:
        file.truncate(3 * 2**30)
    (folder / "folder.png").mkdir()
    (folder / "folder.png" / "inside.png").write_bytes(good)
    return written + 3


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--mutants", type=int, default=12_000)
    parser.add_argument("--served", type=int, default=1_500, help="of these, sent to a running server")
    parser.add_argument("--step", choices=("loading", "decoding", "locked"), help="used by the drill itself")
    parser.add_argument("--folder", type=Path, help="of the step")
    given = parser.parse_args()
    if given.step:
        steps = {"loading": load_all, "decoding": decode_all, "locked": predict_as_nobody}
        print(json.dumps(steps[given.step](given.folder)))
        return
    with tempfile.TemporaryDirectory(prefix="wild-") as place, Drill("files", "Files from the wild") as drill:
        work = Path(place)
        model = saved_model(work / "model")
        count = lay_out(work / SEVERAL, given.mutants)
        drill.found(
            "every kind of file is tried",
            f"{count:,} files: {given.mutants:,} mutants of {len(wild.images())} good files in {_formats()} formats "
            f"and of {len(wild.not_images())} that are none; {len(wild.bombs())} bombs, {len(wild.odd_names())} odd "
            "names, links, a pipe, a device",
            given.mutants >= 10_000,
        )
        drill_in_process(drill, work, count)
        drill_predict(drill, work, model, count)
        drill_rectify(drill, work, model, count)
        drill_permissions(drill, work)
        drill_server(drill, model, given.served)


def drill_in_process(drill: Drill, work: Path, count: int) -> None:
    """Loading, as training and evaluation do it, and the server's own decoding."""
    for step, promise in (
        ("loading", "loading: no crash, no hang, no warning; a file is read or refused with its name and a reason"),
        ("decoding", "the server's decoding: an image, or 413 or 422 with a reason"),
    ):
        words = [sys.executable, __file__, "--step", step, "--folder", str(work / SEVERAL)]
        found, said = run(words)
        kept = found.returncode == 0
        figure = f"exit code {found.returncode}"
        if kept:
            said = json.loads(found.stdout)
            kept = said["read"] + said["refused"] == count and not said["wrong"] and said["slowest_s"] < SLOW
            figure = (
                f"{said['read']:,} read, {said['refused']:,} refused, {len(said['wrong'])} otherwise; "
                f"{said['warnings']} warnings; {_stderr(found)}; the slowest took {said['slowest_s']:.1f} s; "
                f"{said['peak_mb']:,} MB at most"
            )
            kept = kept and said["warnings"] == 0
            print("\n".join(map(str, said["wrong"][:5])), end="")
        else:
            print(found.stderr[-3000:])
        drill.found(promise, figure, kept)


def drill_predict(drill: Drill, work: Path, model: Path, count: int) -> None:
    """Every file is a row or a line of rejected.csv."""
    import pyarrow.parquet as pq

    out = work / "predictions"
    found, seconds = run(command("predict", model, work / SEVERAL, out))
    rows = rejected = 0
    if found.returncode == 0:
        rows = sum(pq.read_metadata(part).num_rows for part in (out / "predictions").iterdir())
        rejected = _rejected(out)
    else:
        print(found.stderr[-3000:])
    drill.found(
        "tokenstn predict: every file is a row, or a line in rejected.csv with its name and a reason",
        f"exit code {found.returncode}; {rows:,} rows, {rejected:,} rejected of {count:,}; {_stderr(found)}; "
        f"{seconds:.0f} s",
        found.returncode == 0 and rows + rejected == count,
    )


def drill_rectify(drill: Drill, work: Path, model: Path, count: int) -> None:
    """Every file is corrected, left as it is, or refused; all results can be opened."""
    # a photo of 30,000 × 10 pixels becomes one of 400 megapixels when it is turned as a whole: those are left out there
    (work / "short").mkdir()
    short = {name: content for name, content in wild.images().items() if "000" not in name}
    short |= {name: content for name, content in wild.mutants(1000, first=10**6) if "000" not in name[7:]}
    short["line.png"] = wild.bombs()["all-that-is-read-1-column.png"]
    for name, content in short.items():
        (work / "short" / name).write_bytes(content)
    for canvas, folder, total in (("same", SEVERAL, count), ("expand", "short", len(short))):
        out = work / f"upright-{canvas}"
        found, seconds = run(command("rectify", model, work / folder, out, f"--canvas={canvas}", "--sheet=true"))
        corrected = left = rejected = broken = 0
        if found.returncode == 0:
            with (out / "corrections.csv").open(newline="", encoding="utf-8") as file:
                done = Counter(row["corrected"] for row in csv.DictReader(file))
            corrected, left, rejected = done["yes"], done["no"], _rejected(out)
            broken = unreadable(out / "images")
            shutil.rmtree(out / "images")
        else:
            print(found.stderr[-3000:])
        drill.found(
            f"tokenstn rectify --canvas={canvas}: every file is corrected, left as it is, or rejected with a reason",
            f"exit code {found.returncode}; {corrected:,} corrected, {left:,} left, {rejected:,} rejected of "
            f"{total:,}; {broken} results that cannot be read; {_stderr(found)}; {seconds:.0f} s",
            found.returncode == 0 and corrected + left + rejected == total and broken == 0,
        )


def drill_permissions(drill: Drill, work: Path) -> None:
    """As somebody without rights: an unreadable file is rejected, a folder that may not be listed stops the job."""
    if os.geteuid() != 0:
        raise SystemExit("run this drill as root, which becomes nobody for a while: permissions do not bind root")
    place = work / "locked"
    for folder in ("fine", "file", "folder", "folder/closed", "out"):
        (place / folder).mkdir(parents=True)
    for name in ("fine/fine.png", "file/fine.png", "file/secret.png", "folder/fine.png", "folder/closed/inside.png"):
        (place / name).write_bytes(wild.images()["PNG-RGB.png"])
    saved_model(place / "model")
    for closed in ("file/secret.png", "folder/closed"):
        (place / closed).chmod(0)
    os.chown(place / "out", NOBODY, NOBODY)
    work.chmod(0o755)
    found, _ = run([sys.executable, __file__, "--step", "locked", "--folder", str(place)])
    said = json.loads(found.stdout.splitlines()[-1]) if found.returncode == 0 else {}
    secret, closed = str(place / "file/secret.png"), str(place / "folder/closed")
    reason = said.get("reasons", {}).get(secret, found.stderr[-300:])
    drill.found(
        "a file without permission is named in rejected.csv",
        f"exit code {said.get('file')}: {reason}",
        said.get("file") == 0 and list(said["reasons"]) == [secret],
    )
    drill.found(
        "a folder without permission is not passed over in silence",
        f"exit code {said.get('folder')}: {said.get('said', '').replace(str(place), '…')}",
        said.get("folder") == 2 and closed in said["said"],
    )


def drill_server(drill: Drill, model: Path, count: int) -> None:
    """Mutants and bombs sent to a running server in every form that it takes."""
    good = wild.images()["JPEG-RGB.jpg"]
    files = [*wild.not_images().values(), *wild.bombs().values(), *wild.images().values()]
    files += [content for _, content in wild.mutants(count)]
    statuses: Counter[int] = Counter()
    slowest, unexplained = 0.0, 0
    with serving(model) as (url, process):
        before = send(url, good, 2)
        for index, content in enumerate(files):
            start = time.monotonic()
            status, said = send(url, content, index % 3)
            slowest = max(slowest, time.monotonic() - start)
            statuses[status] += 1
            unexplained += status != 200 and not said.get("detail")
        after = send(url, good, 2)
        alive = process.poll() is None and urllib.request.urlopen(f"{url}/health").status == 200
    wrong = sum(number for status, number in statuses.items() if status != 200 and status not in REFUSALS)
    shown = ", ".join(f"{number:,} × {status}" for status, number in sorted(statuses.items()))
    drill.found(
        "a running server: an answer, or a refusal with a reason; it stays up and says the same afterwards",
        f"{len(files):,} requests: {shown}; {unexplained} without a reason; the slowest took {slowest:.1f} s",
        alive and not wrong and not unexplained and before == after and before[0] == 200 and slowest < SLOW,
    )


def load_all(folder: Path) -> dict[str, Any]:
    """Read every file in colour and in grey."""
    from tokenstn.data import UnreadableImageError, read_image

    def load(path: Path) -> bool:
        try:
            read_image(path, 3)
            read_image(path, 1)
        except UnreadableImageError as error:
            return _refused(str(path) in str(error) and bool(error.reason))
        return True

    return over(folder, load)


def decode_all(folder: Path) -> dict[str, Any]:
    """What the server does with the bytes of a request."""
    from fastapi import HTTPException

    from tokenstn.apps.upload import Limits, prepared_image
    from tokenstn.data import UnreadableImageError
    from tokenstn.data.images import read_file
    from tokenstn.models import Preprocessing

    preprocessing = Preprocessing((32, 32), (0.5,) * 3, (0.25,) * 3)

    def decode(path: Path) -> bool:
        try:
            prepared_image(read_file(path), preprocessing, Limits(16 * 2**20, 50_000_000))
        except UnreadableImageError:  # a pipe or a link, which nobody can send
            return False
        except HTTPException as error:
            return _refused(error.status_code in (413, 422) and bool(error.detail))
        return True

    return over(folder, decode)


def predict_as_nobody(place: Path) -> dict[str, Any]:
    """Predict what root may read and others may not; the libraries are loaded before, for they may be root's, too."""
    import contextlib
    import io

    from tokenstn.cli import main as tokenstn

    def predict(folder: str) -> tuple[int, str]:
        words = command("predict", place / "model", place / folder, place / "out" / folder)[3:]
        with contextlib.redirect_stderr(io.StringIO()) as said, contextlib.redirect_stdout(io.StringIO()):
            return tokenstn([*words, "--workers=0"]), said.getvalue().strip()

    predict("fine")
    shutil.rmtree(place / "out" / "fine")
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    file, _ = predict("file")
    folder, said = predict("folder")
    return {"file": file, "reasons": _reasons(place / "out" / "file"), "folder": folder, "said": said}


def _refused(properly: bool) -> bool:
    if not properly:
        raise AssertionError("refused without a name or a reason")
    return False


def over(folder: Path, step: Any) -> dict[str, Any]:
    """A step for every file: how many were read and refused, what went wrong, and what it took."""
    import warnings

    from tokenstn.data.paths import walk_images

    read = refused = 0
    slowest, wrong = 0.0, []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for name in walk_images(folder):
            start = time.monotonic()
            try:
                fine = step(Path(name))
                read, refused = read + fine, refused + (not fine)
            except Exception as error:  # what the drill is there to find
                wrong.append(f"{name!a}: {error!r}\n")
            slowest = max(slowest, time.monotonic() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    counts = {"read": read, "refused": refused, "wrong": wrong, "warnings": len(caught)}
    return {**counts, "slowest_s": slowest, "peak_mb": peak}


def unreadable(folder: Path) -> int:
    """How many of the results nobody could open."""
    from tokenstn.data.opening import UnreadableImageError, opened
    from tokenstn.data.paths import walk_images

    found = 0
    for name in walk_images(folder):
        try:
            with opened(Path(name).read_bytes(), name) as image:
                image.load()
        except UnreadableImageError as error:
            print(error)
            found += 1
    return found


def command(verb: str, model: Path, images: Path, out: Path, *more: str) -> list[str]:
    """The words of a verb."""
    words = [sys.executable, "-m", "tokenstn.cli", verb, str(model), str(images), f"--out={out}"]
    return [*words, "--accelerator=cpu", "--progress=false", "--workers=1", *more]


def run(words: list[str], **options: Any) -> tuple[subprocess.CompletedProcess[str], float]:
    """A process to its end, which comes within half an hour, and the seconds that it took."""
    start = time.monotonic()
    found = subprocess.run(
        words, capture_output=True, text=True, encoding="utf-8", errors="backslashreplace", timeout=1800, **options
    )
    return found, time.monotonic() - start


@contextmanager
def serving(model: Path) -> Any:
    """``tokenstn serve`` until the block ends."""
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    words = [sys.executable, "-m", "tokenstn.cli", "serve", str(model), f"--port={port}", "--accelerator=cpu"]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(words, stdout=log, stderr=log)
        try:
            for _ in range(600):
                try:
                    if urllib.request.urlopen(f"{url}/health", timeout=5).status == 200:
                        break
                except OSError:  # not there yet
                    time.sleep(0.2)
            yield url, process
        finally:
            process.terminate()
            process.wait(60)


def send(url: str, content: bytes, form: int) -> tuple[int, dict[str, Any]]:
    """One image to the server, as a form, as JSON or as bytes; the status and what was said."""
    if form == 0:
        head = b'--edge\r\nContent-Disposition: form-data; name="image"; filename="caf\xe9\n.png"\r\n\r\n'
        body, kind = head + content + b"\r\n--edge--\r\n", "multipart/form-data; boundary=edge"
    elif form == 1:
        body, kind = json.dumps({"image": base64.b64encode(content).decode()}).encode(), "application/json"
    else:
        body, kind = content, "image/png"
    try:
        with urllib.request.urlopen(urllib.request.Request(f"{url}/predict", body, {"Content-Type": kind})) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        return refused.code, json.loads(refused.read() or b"{}")


def _rejected(out: Path) -> int:
    with (out / "rejected.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert all(row["path"] and row["reason"] for row in rows)
    return len(rows)


def _reasons(out: Path) -> dict[str, str]:
    with (out / "rejected.csv").open(newline="", encoding="utf-8") as file:
        return {row["path"]: row["reason"] for row in csv.DictReader(file)}


def _stderr(found: subprocess.CompletedProcess[str]) -> str:
    lines = len(found.stderr.splitlines())
    return f"{lines} lines on the error stream"


def _formats() -> int:
    return len({name.split("-")[0] for name in wild.images()})


if __name__ == "__main__":
    main()
