"""Where the YAML files of experiments are, and one of them with a person's changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import tokenstn
from tokenstn.benchmark.experiment import ClassifierSpec, Experiment, changed, experiment_from
from tokenstn.benchmark.typed_yaml import load_yaml

OWN_DATA = "own-data"  # what is run on a person's images
EVERY = "all"


def experiment_files() -> dict[str, Path]:
    """Every experiment by its name: here, beside the package in a clone, or inside the installed package."""
    package = Path(tokenstn.__file__).parent
    found: dict[str, Path] = {}
    for folder in (package / "experiments", package.parents[1] / "experiments", Path("experiments")):
        found |= {path.stem: path for path in sorted(folder.glob("*.yaml"))}
    return found


def find_experiment(name: str) -> Path:
    """The file of an experiment, from its name or its path."""
    if Path(name).suffix in (".yaml", ".yml"):
        if not Path(name).is_file():
            raise ValueError(f"there is no file {name}")
        return Path(name)
    there = experiment_files()
    if name not in there:
        raise ValueError(f"there is no experiment {name!r}: name a YAML file, or one of {', '.join(sorted(there))}")
    return there[name]


def load_document(path: Path) -> dict[str, Any]:
    """The mapping in a file; with ``extends: NAME`` that of NAME beside it, changed as a quick run changes one."""
    return _extended(path, ())


def _extended(path: Path, after: tuple[Path, ...]) -> dict[str, Any]:
    document = load_yaml(path)
    base = document.pop("extends", None)
    if base is None:
        return document
    if not isinstance(base, str) or base != Path(base).name or not base:
        raise ValueError(f"{path} extends {base!r}: name a file beside it, without a folder and without .yaml")
    before = path.with_name(f"{base}.yaml")
    if not before.is_file():
        raise ValueError(f"{path} extends {base!r}, and there is no {before}")
    if before in (path, *after):
        raise ValueError(f"{path} extends {base!r}, which extends it in turn: one of them has to begin")
    return changed(_extended(before, (path, *after)), document)


def read_experiment(
    name: str,
    *,
    quick: bool = False,
    data: str | None = None,
    classifier: str | None = None,
    methods: Sequence[str] = (EVERY,),
    seeds: Sequence[int] | None = None,
) -> Experiment:
    """An experiment, on other data and for some of its methods and seeds where asked for."""
    path = find_experiment(name)
    document = load_document(path)
    called = path.stem
    if data is not None:
        called = _plain(Path(data).stem or data)
        document["data"] = {called: {"source": data}}
        document["reported"] = {}
        if isinstance(document.get("quick"), dict) and "data" in document["quick"]:
            usual = next(iter(document["quick"]["data"].values()))  # as few images as of the experiment's own
            document["quick"]["data"] = {called: {"source": data, "limit": usual.get("limit", {})}}
    experiment = experiment_from(document, called + ("-quick" if quick else ""), str(path), quick)
    if classifier is not None:
        data_sets = dict(experiment.data)
        for name, spec in experiment.data.items():
            if spec.classifier is not None:
                data_sets[name] = replace(spec, classifier=_classifier(spec.classifier, classifier))
        experiment = replace(experiment, classifier=_classifier(experiment.classifier, classifier), data=data_sets)
    if seeds is not None:
        experiment = replace(experiment, seeds=tuple(seeds))
    return experiment if EVERY in methods else replace(experiment, methods=_some(experiment, methods))


def _classifier(usual: ClassifierSpec, name: str) -> ClassifierSpec:
    """A model folder is taken as it is, anything else is trained."""
    if Path(name).is_dir():
        trainings = {**usual.trainings, "vanilla": replace(usual.trainings["vanilla"], as_is=True)}
        return replace(usual, folder=name, arguments={}, weights=None, pretrained=False, trainings=trainings)
    return replace(usual, arch=name, arguments={}, folder=None, weights=None, pretrained=True)


def _some(experiment: Experiment, methods: Sequence[str]) -> dict[str, Any]:
    unknown = [name for name in methods if name not in experiment.methods]
    if unknown:
        there = ", ".join(experiment.methods)
        raise ValueError(f"--methods: {experiment.name} has no {', '.join(unknown)}; it has {there}")
    return {name: spec for name, spec in experiment.methods.items() if name in methods}


def _plain(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in name).strip("-.") or OWN_DATA
