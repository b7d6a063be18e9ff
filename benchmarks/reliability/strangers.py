"""What strangers can do to the server, to the page, and through names; and whom the package calls.

    python benchmarks/reliability/strangers.py      # needs strace and Chromium

Every verb runs under strace, which sees each connection that is opened, also by native libraries; the server and the
page once more, with every file that they touch written down.
"""

from __future__ import annotations

import ipaddress
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from record import Drill

sys.path.append(str(Path(__file__).parents[2]))
from strangers_requests import limits, nothing_is_opened, on_loopback, only_with_the_token
from tests.trust import licences, pages
from tour import ROOT, app, model_in

NOWHERE = "192.0.2.53"  # kept for documents
ADDRESS = re.compile(r'inet_(?:addr\(|pton\(AF_INET6, )"([^"]+)"')
CALLS = ("connect", "sendto", "sendmsg", "sendmmsg")


def called(log: Path, *command: str) -> tuple[list[str], list[str]]:
    """The lines that a command printed, and the addresses of other machines that it or its children turned to."""
    words = ["strace", "-f", "-qq", "-e", f"trace={','.join(CALLS)}", "-o", str(log), *command]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    found = [address for line in log.read_text(errors="replace").splitlines() for address in ADDRESS.findall(line)]
    return done.stdout.splitlines(), [one for one in found if not ipaddress.ip_address(one).is_loopback]


def nobody_is_called(drill: Drill, folder: Path) -> None:
    log = folder / "calls"
    attempt = f"import socket\ntry: socket.create_connection(('{NOWHERE}', 80), 1)\nexcept OSError: pass"
    control = called(log, sys.executable, "-c", attempt)[1]
    done, others = called(log, sys.executable, str(Path(__file__).with_name("tour.py")), str(folder))
    seen = len(log.read_text(errors="replace").splitlines())
    drill.found(
        "no connection leaves the machine",
        f"{', '.join(done)}: {seen:,} calls that connect or send, {len(others)} of them to other machines "
        f"(control: one attempt is seen {len(control)} time)",
        not others and control == [NOWHERE],
    )


def nothing_runs(drill: Drill, folder: Path) -> None:
    """Reports, figures and the demo page of the tour, in Chromium."""
    chromium = shutil.which("chromium")
    assert chromium is not None, "this drill opens pages in Chromium"
    pictures = [path for path in folder.rglob("*.svg") if any(part in path.read_text() for part in ("&lt;", "onload"))]
    reports = sorted(folder.rglob("report.html"))
    ran, seen = [], 0
    for path in (*reports, *pictures):
        with pages.opened(path.as_uri(), chromium) as (page, said, asked):
            foreign = [url for url in asked if url != path.as_uri()]
            if page.evaluate(f"typeof {pages.RAN}") != "undefined" or said or foreign:
                ran.append(path.name)
            seen += any(name in page.content() for name in ("&lt;script&gt;", "&lt;img src=x"))
    demo = app("demo", str(model_in(folder)), f"--images={folder / 'photos'}")
    with demo as (address, _), pages.opened(address, chromium, wait_for="#answer") as (page, said, asked):
        for k in range(page.locator("#examples button").count()):
            page.locator("#examples button").nth(k).click()
            page.wait_for_timeout(400)
        foreign = [url for url in asked if not url.startswith((address, "data:", "blob:"))]
        if page.evaluate(f"typeof {pages.RAN}") != "undefined" or said or foreign:
            ran.append("demo")
    drill.found(
        "names of classes and files become text and nothing else",
        f"{len(pages.NAMES)} names such as {pages.NAMES[1]!r} as classes, files, folders and model: "
        f"{len(reports)} reports, {len(pictures)} figures and the demo page opened in Chromium "
        f"({seen} with such a name in them), nothing ran in {len(reports) + len(pictures) + 1 - len(ran)}",
        not ran and seen >= len(reports),
    )


def dependencies(drill: Drill) -> None:
    found = list(licences.packages())
    foreign = [one.name for one in found if not one.accepted]
    nvidia = sum(licences.NVIDIA in one.licences for one in found)
    drill.found(
        "every dependency has a licence that users can live with",
        f"{len(found)} packages at run time with all extras, {len(foreign)} with another licence; "
        f"{nvidia} are NVIDIA's own, which torch brings",
        not foreign,
    )


def main() -> None:
    with Drill("strangers", "Strangers") as drill, tempfile.TemporaryDirectory() as place:
        nobody_is_called(drill, Path(place))
        nothing_runs(drill, Path(place))
        on_loopback(drill)
        only_with_the_token(drill)
        limits(drill)
        nothing_is_opened(drill, Path(place))
        dependencies(drill)


if __name__ == "__main__":
    assert Path.cwd() == ROOT, f"run this in {ROOT.name}/"
    main()
