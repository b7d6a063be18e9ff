"""Nothing comes along that nobody asked for, and everything may be used by whoever may use this package."""

import tomllib
from importlib import metadata

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from . import licences

ROOT = licences.PROJECT.parent
WITH_PYTHON = {"setuptools", "pip"}


def pinned(name):
    """{package: version} of a constraints file."""
    lines = (line.split("#")[0].strip() for line in (ROOT / name).read_text(encoding="utf-8").splitlines())
    return {canonicalize_name(line.split("==")[0].split("[")[0]): line.split("==")[1] for line in lines if line}


def asked_for_to_build():
    """The build backend and what it needs."""
    lines = tomllib.loads(licences.PROJECT.read_text(encoding="utf-8"))["build-system"]["requires"]
    found = {canonicalize_name(Requirement(line).name) for line in lines}
    for name in list(found):
        try:
            found |= {canonicalize_name(Requirement(line).name) for line in metadata.requires(name) or []}
        except metadata.PackageNotFoundError:
            found |= {"packaging", "pathspec", "pluggy", "trove-classifiers"}
    return found


def test_every_licence_is_one_that_users_can_live_with():
    found = list(licences.packages())
    assert len(found) > 30
    foreign = [f"{one.name} {one.version}: {', '.join(one.licences) or 'unknown'}" for one in found if not one.accepted]
    assert foreign == [], "not on the list in tests/trust/licences.py"


@pytest.mark.parametrize("expression", ["GPL-3.0-only", "MIT AND AGPL-3.0-or-later", "LicenseRef-Nobody-Knows", ""])
def test_a_licence_that_is_not_on_the_list_is_seen(expression):
    parts = tuple(licences._parts(expression))
    assert not licences.Package("some-package", "1", parts, "tokenstn").accepted


def test_nvidias_own_licence_is_for_nvidias_packages():
    assert licences.Package("nvidia-cublas", "1", (licences.NVIDIA,), "torch").accepted
    assert not licences.Package("some-package", "1", (licences.NVIDIA,), "torch").accepted


def test_the_tested_versions_are_those_of_all_that_is_needed_and_of_nothing_else():
    wanted = set(licences.needed(licences.every_extra()))
    tested = set(pinned("constraints.txt"))
    installed = {canonicalize_name(one.metadata["Name"]) for one in metadata.distributions()}
    assert tested - wanted - asked_for_to_build() == set(), "pinned, and nobody asks for it"
    assert (wanted & installed) - tested - WITH_PYTHON == set(), "needed, and its tested version is not written down"


@pytest.mark.parametrize("name", ["constraints.txt", "constraints-lowest.txt"])
def test_tested_versions_are_among_those_that_are_asked_for(name):
    """The newest and the lowest versions that were run lie in the ranges of pyproject.toml."""
    versions = pinned(name)
    for requirement in licences.asked_for():
        version = versions.get(canonicalize_name(requirement.name))
        assert version is None or version in requirement.specifier, f"{requirement} is not {version}"


def advisories():
    """(package, versions, why) of what must not be used."""
    lines = (ROOT / "tests" / "trust" / "advisories.txt").read_text(encoding="utf-8").splitlines()
    for line in lines:
        if line and not line.startswith("#"):
            name, versions, why = line.split(maxsplit=2)
            yield canonicalize_name(name), SpecifierSet(versions), why


@pytest.mark.parametrize("name", ["constraints.txt", "constraints-lowest.txt"])
def test_no_tested_version_is_known_to_be_dangerous(name):
    versions = pinned(name)
    known = [f"{package} {versions[package]}: {why}" for package, bad, why in advisories() if package in versions
             and versions[package] in bad]  # fmt: skip
    assert known == []


def test_single_releases_that_are_dangerous_are_left_out():
    ranges = {canonicalize_name(one.name): one.specifier for one in licences.asked_for(())}
    for package, bad, why in advisories():
        alone = [clause.version for clause in bad if clause.operator == "=="]
        assert not any(version in ranges[package] for version in alone), f"{package}: {why}"


def test_what_is_asked_for_begins_at_the_lowest_version_that_was_tested():
    lowest = pinned("constraints-lowest.txt")
    for requirement in licences.asked_for(()):
        begins = [clause.version for clause in requirement.specifier if clause.operator == ">="]
        assert list(map(Version, begins)) == [Version(lowest[canonicalize_name(requirement.name)])], requirement


def test_the_lowest_versions_are_no_higher_than_the_newest():
    newest, lowest = pinned("constraints.txt"), pinned("constraints-lowest.txt")
    asked = {canonicalize_name(one.name) for one in licences.asked_for(())}
    assert asked <= lowest.keys(), "a direct dependency without a lowest version"
    assert all(Version(version) <= Version(newest[name]) for name, version in lowest.items() if name in newest)
