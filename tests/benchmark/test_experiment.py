"""Experiments: what a file may say, and the sentences for what it may not."""

from pathlib import Path

import pytest

import tokenstn
from tokenstn.baselines import METHODS
from tokenstn.benchmark.experiment import experiment_from
from tokenstn.benchmark.files import experiment_files, find_experiment, read_experiment
from tokenstn.benchmark.settings import recipe_of
from tokenstn.benchmark.typed_yaml import load_yaml

from .tiny import TINY, rows, tiny, written

SHIPPED = sorted(Path(tokenstn.__file__).parents[2].joinpath("experiments").glob("*.yaml"))


def made(**changes):
    return experiment_from(tiny(**changes), "tiny", "tiny.yaml")


@pytest.mark.skipif(not SHIPPED, reason="an installed package has its experiments elsewhere")
@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_experiment_can_be_read_and_names_methods_that_exist(path, quick):
    experiment = read_experiment(str(path), quick=quick)
    assert all((spec.method or row) in METHODS for row, spec in experiment.methods.items())
    assert experiment.reference in experiment.methods
    for columns in experiment.reported.values():
        for column, figures in columns.items():
            assert column in ("upright", "auc", *experiment.orbits)
            assert set(figures) <= set(experiment.methods)
    header = path.read_text(encoding="utf-8").split("title:")[0]
    assert all(word in header for word in ("command", "cost", "expect"))


def test_the_experiments_of_the_issue_are_there():
    wanted = {"rotmnist", "moths-eu", "moths-best", "moths-ecuador", "medmnist", "ablation", "samples", "cost"}
    wanted |= {"own-data"}
    assert wanted <= set(experiment_files())
    with pytest.raises(ValueError, match=r"no experiment 'rotmnits'.*rotmnist"):
        find_experiment("rotmnits")


def test_the_benchmark_of_rotated_digits_has_every_method():
    experiment = read_experiment("rotmnist")
    used = {spec.method or row for row, spec in experiment.methods.items()}
    assert used == set(METHODS) - {"tokenstn-matrix", "tokenstn-pixels"}  # these two are ablations
    assert {"vanilla-averaged", "augmented", "augmented-averaged", "diffeo-stn-skew"} <= set(experiment.methods)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sedes": [1]}, r"tiny.yaml: unknown key 'sedes'; there are title, data"),
        ({"seeds": ["one"]}, r"tiny.yaml: seeds\[0\] is 'one': expected a whole number"),
        ({"seeds": []}, "seeds is empty"),
        ({"orbits": {"turn": {"group": "turns"}}}, r"tiny.yaml: orbits.turn: unknown group 'turns'"),
        ({"orbits": {"turn": {"group": "rotation", "scales": 3}}}, "rotation does not take scales"),
        ({"methods": rows("vanilla", stm={})}, r"methods.stm: unknown method 'stm'"),
        ({"methods": {"stn": {"options": {"order": 3}}}}, r"methods.stn: stn does not take order"),
        ({"methods": {"stn": {"recipe": {"epoch": 3}}}}, r"methods.stn: a recipe does not have epoch"),
        ({"methods": {"stn": {"recipe": {"rate": "high"}}}}, r"recipe.rate is 'high': expected a number"),
        ({"methods": {"stn": {"recipe": {"base": "papers"}}}}, "unknown recipe 'papers'"),
        ({"methods": {"stn": {"classifier": "augmentet"}}}, r"'augmentet' is none of the trainings vanilla, augmented"),
        ({"methods": {"stn": {"tune": [{}, {"recipe": {"rates": 1}}]}}}, r"methods.stn.tune\[1\]: a recipe does not"),
        ({"methods": {"tokenstn": {"sampling": "random"}}}, "needs a number of views"),
        ({"methods": {"tokenstn": {"options": {"primitives": ["rotatoin"]}}}}, "unknown primitive 'rotatoin'"),
        ({"columns": ["uprigth"]}, "unknown column 'uprigth'"),
        ({"tuning": {"orbit": "scale"}}, "none of the orbits rotation"),
        ({"evaluation": {"cost_views": [1, 4]}}, r"evaluation.*cost_views=\[1, 4\]: .* that begin with 0"),
    ],
)  # fmt: skip
def test_what_does_not_belong_is_refused_with_its_place(changes, said):
    with pytest.raises(ValueError, match=said):
        made(**changes)


def test_the_error_names_the_file(tmp_path):
    path = written(tmp_path, tiny(sedes=[1]))
    with pytest.raises(ValueError, match=f"{path}: unknown key 'sedes'"):
        read_experiment(path)
    Path(path).write_text("title: [", encoding="utf-8")
    with pytest.raises(ValueError, match="is not YAML"):
        read_experiment(path)


def test_a_number_with_an_exponent_is_a_number(tmp_path):
    path = tmp_path / "numbers.yaml"
    path.write_text("recipe: {rate: 5e-4, other: [1E+3]}\nname: e5\n")
    assert load_yaml(path) == {"recipe": {"rate": 5e-4, "other": [1000.0]}, "name": "e5"}


def test_quick_merges_methods_and_replaces_the_rest(tmp_path):
    quick = {
        "seeds": [7],
        "data": {"few": {"source": "digits"}},
        "methods": {"stn": {"recipe": {"rate": 1.0}}},
        "every_method": {"recipe": {"epochs": 2}},
    }
    path = written(tmp_path, tiny(quick=quick, reported={"digits": {"upright": {"stn": 1.0}}}))
    experiment = read_experiment(path, quick=True)
    assert experiment.name == "tiny-quick" and experiment.seeds == (7,) and list(experiment.data) == ["few"]
    assert experiment.methods["stn"].recipe == {"epochs": 2, "batch_size": 20, "rate": 1.0}
    assert all(spec.recipe["epochs"] == 2 for spec in experiment.methods.values())
    assert not experiment.reported  # those numbers were about other data
    usual = read_experiment(path)
    assert usual.name == "tiny" and usual.methods["stn"].recipe == {"epochs": 1, "batch_size": 20}


def test_one_experiment_extends_another(tmp_path):
    written(tmp_path, tiny())
    path = written(tmp_path, {"extends": "tiny", "title": "Other", "methods": {"its": {}}}, "other")
    experiment = read_experiment(path)
    assert experiment.title == "Other" and {"stn", "its"} <= set(experiment.methods)
    with pytest.raises(ValueError, match="extends 'none'"):
        read_experiment(written(tmp_path, {"extends": "none"}, "third"))


def test_own_data_classifier_methods_and_seeds_replace_those_of_the_file(tmp_path):
    path = written(tmp_path, tiny())
    experiment = read_experiment(path, data="photos/", methods=("vanilla", "tta"), seeds=[3], classifier="resnet18")
    assert experiment.name == "photos" and experiment.data["photos"].source == "photos/"
    assert list(experiment.methods) == ["vanilla", "tta"] and experiment.seeds == (3,)
    assert experiment.classifier.arch == "resnet18" and experiment.classifier.pretrained
    (tmp_path / "model").mkdir()
    folder = read_experiment(path, data="photos/", classifier=str(tmp_path / "model")).classifier
    assert folder.trainings["vanilla"].as_is and not folder.trainings["augmented"].as_is
    # whatever the file starts from, and wherever it says so
    of_its_own = {**TINY["data"]["digits"], "classifier": TINY["classifier"] | {"weights": "start.pth"}}
    path = written(tmp_path, tiny(data={"digits": of_its_own}, classifier=of_its_own["classifier"]))
    for given, start in (("resnet18", (None, None, True)), (str(tmp_path / "model"), (None, folder.folder, False))):
        experiment = read_experiment(path, classifier=given)
        for found in (experiment.classifier, experiment.classifier_of("digits")):
            assert (found.weights, found.folder, found.pretrained) == start
            assert found.trainings["augmented"].recipe == {"epochs": 1, "batch_size": 20}
    with pytest.raises(ValueError, match="has no stm; it has vanilla"):
        read_experiment(path, methods=("stm",))


def test_a_recipe_is_its_base_and_what_differs():
    assert recipe_of({"base": "paper-rotmnist", "rate": 1.0}).kl == 0.1
    assert recipe_of({}).alignment == 1.0
