"""What the package needs at run time, what is installed of it, and under which licence.

python -m tests.trust.licences      # the list, one line for each package
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
EXTRAS = ("medical", "export", "serve", "demo")  # those of users; others are for whoever works on the package
# what a user of an Apache-2.0 package can live with: permissive, or weak copyleft that stays in its own files
ACCEPTED = {
    "0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0",
    "HPND", "ISC", "MIT", "MIT-0", "MIT-CMU", "MPL-2.0", "PSF-2.0", "Python-2.0", "Unicode-3.0", "Unlicense", "Zlib",
    "ZPL-2.1",
}  # fmt: skip
# not free, but torch's build from the registry brings them, and they may be used and passed on with it
NVIDIA = "NVIDIA's own"
UNSTATED = {"cuda-toolkit": NVIDIA}  # holds nothing but the names of NVIDIA's packages
# the words that packages without a licence expression use
WORDS = {
    "apache license 2.0": "Apache-2.0", "apache license, version 2.0": "Apache-2.0", "apache 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0", "apache license": "Apache-2.0", "apache 2.0 license": "Apache-2.0",
    "apache-2.0": "Apache-2.0", "bsd license": "BSD", "bsd": "BSD", "3-clause bsd license": "BSD-3-Clause",
    "new bsd": "BSD-3-Clause", "modified bsd": "BSD-3-Clause", "bsd 3-clause": "BSD-3-Clause", "mit license": "MIT",
    "the mit license (mit)": "MIT", "python software foundation license": "PSF-2.0", "psf": "PSF-2.0",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0", "isc license (iscl)": "ISC", "isc license": "ISC",
    "historical permission notice and disclaimer (hpnd)": "HPND", "the unlicense (unlicense)": "Unlicense",
    "mit-cmu": "MIT-CMU", "zope public license": "ZPL-2.1", "licenseref-nvidia-proprietary": NVIDIA,
    "nvidia proprietary software": NVIDIA, "other/proprietary license": NVIDIA,
    "licenseref-nvidia-software-license": NVIDIA,
}  # fmt: skip


@dataclass(frozen=True)
class Package:
    """An installed distribution, the parts of its licence, and who asks for it."""

    name: str
    version: str
    licences: tuple[str, ...]
    wanted_by: str

    @property
    def accepted(self) -> bool:
        """Every part is on the list; NVIDIA's own only for NVIDIA's own."""
        ours = self.name.startswith(("nvidia-", "cuda-"))
        return bool(self.licences) and all(one in ACCEPTED or (one == NVIDIA and ours) for one in self.licences)


def every_extra() -> tuple[str, ...]:
    """The names that pyproject.toml has, for users and for others."""
    return tuple(tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["optional-dependencies"])


def asked_for(extras: Iterable[str] = EXTRAS) -> list[Requirement]:
    """What pyproject.toml names."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    optional = [line for extra in extras for line in project["optional-dependencies"][extra]]
    return [Requirement(line) for line in (*project["dependencies"], *optional)]


def needed(extras: Iterable[str] = EXTRAS) -> dict[str, str]:
    """The names of everything that the package needs, directly or not, and who asks for each; {name: who}."""
    found: dict[str, str] = {}
    left = [("tokenstn", frozenset(("", *extras)), "")]
    seen: set[tuple[str, frozenset[str]]] = set()
    while left:
        name, wanted, by = left.pop()
        if (name, wanted) in seen:
            continue
        seen.add((name, wanted))
        if by:
            found.setdefault(name, by)
        for requirement in asked_for(extras) if name == "tokenstn" else _requires(name):
            if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in wanted):
                left.append((canonicalize_name(requirement.name), frozenset(("", *requirement.extras)), name))
    return found


def packages(extras: Iterable[str] = EXTRAS) -> Iterator[Package]:
    """Those that are installed here, by name."""
    for name, by in sorted(needed(extras).items()):
        try:
            installed = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        yield Package(name, installed.version, tuple(sorted(set(_licences(installed)))), by)


def _requires(name: str) -> list[Requirement]:
    try:
        return [Requirement(line) for line in metadata.requires(name) or []]
    except metadata.PackageNotFoundError:
        return []


def _licences(installed: metadata.Distribution) -> Iterator[str]:
    """From the licence expression, else from the classifiers, else from the words in the field."""
    about = installed.metadata
    classified = [one.rsplit("::", 1)[1].strip() for one in about.get_all("Classifier") or () if "License ::" in one]
    classified = [one for one in classified if one != "OSI Approved"]
    field = (about.get("License") or "").strip().split("\n")[0]
    if about.get("License-Expression"):
        yield from _parts(about["License-Expression"])
    elif classified:
        yield from map(_named, classified)
    elif field:
        yield from [_named(field)] if _named(field) != field else _parts(field)
    elif canonicalize_name(about["Name"]) in UNSTATED:
        yield UNSTATED[canonicalize_name(about["Name"])]


def _parts(expression: str) -> Iterator[str]:
    """
    >>> list(_parts("MIT AND (Apache-2.0 WITH LLVM-exception OR BSD-3-Clause)"))
    ['MIT', 'Apache-2.0 WITH LLVM-exception', 'BSD-3-Clause']
    """
    plain = expression.replace("(", " ").replace(")", " ").replace(" WITH ", "\0")
    yield from (_named(part.replace("\0", " WITH ")) for part in plain.split() if part not in ("AND", "OR"))


def _named(text: str) -> str:
    return WORDS.get(text.lower().strip(), text.strip())


if __name__ == "__main__":
    for package in packages():
        mark = " " if package.accepted else "!"
        print(f"{mark} {package.name:28} {package.version:14} {', '.join(package.licences):40} for {package.wanted_by}")
