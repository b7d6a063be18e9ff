"""The page on results and the block in the README say what was measured, and nothing else."""

import importlib.util
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.reports import test_bench_reports as bench_reports
from tokenstn.evaluation.bench_results import BenchResults, DoubtScores, OrbitScores, Try, Tuning
from tokenstn.evaluation.results import Control, PoseScores
from tokenstn.reports.bench import write_bench
from tokenstn.reports.bench_tables import REPORTED
from tokenstn.reports.numbers import THIN

ROOT = Path(__file__).parents[2]
ROWS = {"bare": "vanilla", "ours": "tokenstn"}  # names of the toy and of the experiments
toy = bench_reports.results  # the fixture there, by another name here


@pytest.fixture(scope="module")
def page():
    """The script as a module: benchmarks/ is no package."""
    spec = importlib.util.spec_from_file_location("results_page", ROOT / "benchmarks" / "results_page.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def as_experiment(results: BenchResults, name: str, data: str) -> BenchResults:
    """The toy as results of an experiment that there is: its rows and its data under the names of that."""

    def renamed(values, **names):
        return tuple(
            replace(one, **{place: new.get(getattr(one, place), getattr(one, place)) for place, new in names.items()})
            for one in values
        )

    sets = {"moths": data}
    return replace(
        results,
        experiment=name,
        command=f"tokenstn bench {name}",
        reference="tokenstn",
        rows=renamed(results.rows, name=ROWS),
        data=renamed(results.data, name=sets),
        cells=renamed(results.cells, row=ROWS, data=sets),
        comparisons=renamed(results.comparisons, reference=ROWS, data=sets),
        reported={data: results.reported["moths"]},
        tuning=(Tuning("stn", data, "turns", 0, (Try({}, 0.7, "a"), Try({"views": 4}, 0.8, "b")), 1),),
    )


def doubted(scores: OrbitScores, auroc: float, warns: bool, collapsed: bool) -> OrbitScores:
    return replace(
        scores,
        uncertainty={"entropy_rotation": DoubtScores(auroc, None, 0.021, 0.97, 0.94)},
        controls=(Control("grey corners", 0.84, 0.88, 0.5, warns, "grey corners: corners tell the angle"),),
        pose={"rotation": PoseScores("degrees", 2.0, 0.0, 1.0, 0.0, 90.0, 0.0, collapsed, "")},
    )


def with_trust(results: BenchResults) -> BenchResults:
    """Uncertainties and controls for the reference row; in its second seed a control warns and a pose collapses.

    That of the STN collapses in training, with both seeds.
    """
    cells = []
    for cell in results.cells:
        cell = replace(cell, collapsed=("rotation",)) if cell.row == "stn" and cell.state == "done" else cell
        if cell.row == results.reference and cell.state == "done":
            scores = doubted(cell.orbits["turns"], (0.8, 0.9)[cell.seed], cell.seed == 1, cell.seed == 1)
            cell = replace(cell, orbits={"turns": scores})
        cells.append(cell)
    return replace(results, cells=tuple(cells))


@pytest.fixture
def found(toy, tmp_path) -> Path:
    """A folder as results/, with one experiment of the seven."""
    write_bench(with_trust(as_experiment(toy, "rotmnist", "mnist")), tmp_path)
    return tmp_path


def section_of(text: str, heading: str) -> str:
    """A section of the page, from its heading to the next of that level."""
    _, there, rest = text.partition(f"\n## {heading}\n")
    assert there, heading
    return rest.split("\n## ")[0]


def test_page_readme_and_figures_are_what_the_script_renders():
    done = subprocess.run(
        [sys.executable, "benchmarks/results_page.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_sections_stand_in_their_order_and_an_experiment_without_a_file_has_its_line(page, found):
    text = page.render(found)
    titles = [
        "In short", "A toy", "Digits, every method", "EU-Moths, ViT-S/14", "EU-Moths, the best", "MedMNIST",
        "BreastMNIST", "Ablation", "Digits, what each part gives",
        "EU-Moths, what the localizer reads", "EU-Moths, how the rectifier learns", "EU-Moths, how far apart",
        "EU-Moths, shortcuts", "MNIST, what a localizer reads", "Accuracy against views", "Ecuador-Moths", "Cost",
    ]  # fmt: skip
    headings = [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]
    assert [heading.startswith(title) for heading, title in zip(headings, titles, strict=True)] == [True] * 17
    assert "| TokenSTN (ours) | 90.5 ± 0.7 | **88.2 ± 0.4** |" in section_of(text, "In short")
    assert text.count("Not run yet: ") == 15
    ablation = section_of(text, "Ablation")
    assert "Not run yet: `tokenstn bench ablation` makes results/ablation.json" in ablation
    assert all(name in ablation for name in ("eu_moths_196.zip", "vit_s14.safetensors", "breastmnist"))
    assert "|" not in ablation


def test_a_section_has_table_differences_tuning_figure_and_command(page, found):
    text = section_of(page.render(found), "A toy")
    for part in (
        "upright digits",  # the question
        "`tokenstn bench rotmnist`", "cpu; ", "torch 2;", "20 s of computing", "(10 s in this start)",
        "\n### Moths\n", "| STN | 81.0 ± 1.4 | 83.0 ± 1.4 | −5.2 (−8.0 … −2.0)* |", "**88.2 ± 0.4** | reference |",
        f"turns ({REPORTED})", "gone: failed for seed 0: ValueError: no memory",
        "\n### Tuning\n", "| STN | mnist | views 4 | **80.0** |",
        "![accuracy over the orbit against upright accuracy](assets/rotmnist-pareto.svg)",
    ):  # fmt: skip
        assert part in text, part
    assert "views.svg" not in text


def test_methods_and_data_that_a_run_left_out_are_empty_rows_with_the_reason(page, found):
    text = section_of(page.render(found), "A toy")
    table = text.split("### Moths")[1].split("###")[0]
    line = next(line for line in table.splitlines() if line.startswith("| Head-STN |"))
    assert set(line.removeprefix("| Head-STN |")) == set(" |–")
    (remark,) = (line for line in table.splitlines() if line.endswith(": not run, left out of this run"))
    assert "Head-STN, " in remark, "rows with the same reason share a line"
    absent = text.split("### Not at hand")[1]
    assert "| Other moths | – |" in absent and "- Other moths not run: there is no o.zip" in absent


def test_uncertainty_controls_and_collapse_of_the_reference_row(page, found):
    text = section_of(page.render(found), "A toy").replace(THIN, " ")
    assert "### Uncertainty of “ours” over turns" in text
    assert "| Moths: entropy of rotation | 0.850 | – | 0.021 | 97.0 % | 94.0 % |" in text
    assert "| Moths: grey corners | 84.0 % | 88.0 % | −4.0 | 50.0 % | 1 of 2 |" in text
    assert text.count("- Moths: grey corners: corners tell the angle") == 1
    assert "Collapsed poses of “ours”: rotation (Moths, seed 1)." in text
    assert "Of the other rows a pose collapsed with some seeds: STN on Moths rotation 2 of 2. It is then" in text


def test_nothing_collapsed_is_said_too(page, toy, tmp_path):
    write_bench(as_experiment(toy, "rotmnist", "mnist"), tmp_path)
    text = section_of(page.render(tmp_path), "A toy")
    assert "Collapsed poses of “ours”: none with any seed." in text and "Of the other rows" not in text
    assert "### Uncertainty" not in text and "### Controls" not in text


def test_of_networks_that_are_hardly_trained_only_the_cost_is_shown(page, toy, tmp_path):
    write_bench(with_trust(as_experiment(toy, "cost", "eu-moths")), tmp_path)
    text = section_of(page.render(tmp_path), "A toy")
    assert "### Cost of one image" in text
    assert "pareto" not in text and "Uncertainty" not in text and "Collapsed" not in text


def test_results_of_a_quick_run_are_refused(page, toy, tmp_path):
    files = write_bench(as_experiment(toy, "rotmnist-quick", "mnist"), tmp_path)
    assert page.render(tmp_path).count("Not run yet: ") == 16
    files[0].rename(tmp_path / "rotmnist.json")
    with pytest.raises(ValueError, match="holds the results of rotmnist-quick"):
        page.render(tmp_path)


def test_the_block_has_the_means_of_both_experiments(page, found, toy):
    moths = as_experiment(toy, "moths-eu", "eu-moths")
    others = {("vanilla", 0): (0.70, 0.60), ("vanilla", 1): (0.74, 0.62)}
    cells = (
        replace(cell, orbits={"turns": bench_reports.scores(*others[cell.row, cell.seed])})
        if (cell.row, cell.seed) in others and cell.state == "done" else cell
        for cell in moths.cells
    )  # fmt: skip
    write_bench(replace(moths, cells=tuple(cells)), found)
    lines = page.headline(found).splitlines()
    assert lines[0] == "| | RotMNIST, upright | RotMNIST, turns | EU-Moths, upright | EU-Moths, turns |"
    rows = {line.split("|")[1].strip(): line for line in lines[2:] if line.startswith("|")}
    assert list(rows) == ["vanilla", "STN", "TokenSTN (ours)"]
    assert rows["vanilla"] == "| vanilla | **91.0 ± 1.4** | 52.0 ± 2.8 | 72.0 ± 2.8 | 61.0 ± 1.4 |"
    assert rows["STN"] == "| STN | 81.0 ± 1.4 | 83.0 ± 1.4 | 81.0 ± 1.4 | 83.0 ± 1.4 |"
    ours = "| TokenSTN (ours) | 90.5 ± 0.7 | **88.2 ± 0.4** | **90.5 ± 0.7** | **88.2 ± 0.4** |"
    assert rows["TokenSTN (ours)"] == ours
    (left,) = (line for line in lines if "Gauss, – reading six layers of the whole photo: not run yet" in line)
    assert "ITS, " in left and "STN," not in left.split("P-STN")[0]
    assert "(RotMNIST 2, turns: 16 angles; EU-Moths 2, turns: 16 angles)" in lines[-1]


def test_the_block_says_which_experiment_is_missing_and_without_any_has_no_number(page, found, tmp_path_factory):
    one = page.headline(found)
    assert one.splitlines()[0] == "| | RotMNIST, upright | RotMNIST, turns |"
    assert "- EU-Moths: not run yet" in one
    none = page.headline(tmp_path_factory.mktemp("empty"))
    assert "being measured" in none and "(docs/results.md)" in none and "(docs/speed.md)" in none
    assert not any(sign.isdigit() or sign == "|" for sign in none)


def test_the_comparison_has_every_method_the_best_over_the_orbit_first(page, found, toy):
    assert page.compared(found).startswith("Not run yet: `tokenstn bench moths-eu`")
    write_bench(as_experiment(toy, "moths-eu", "eu-moths"), found)
    lines = page.compared(found).splitlines()
    assert lines[0].startswith("| | upright | turns |") and "Δ" not in lines[0]
    names = [line.split("|")[1].strip() for line in lines[2:] if line.startswith("|")]
    assert names[:2] == ["ours", "STN"] and names[2].startswith("vanilla")  # 88.2, 83.0 and 52.0 over the orbit
    assert "2 retrained seeds; `tokenstn bench moths-eu`" in lines[-1]


def test_only_the_block_of_a_page_changes(page, tmp_path):
    marked, plain = tmp_path / "marked.md", tmp_path / "plain.md"
    marked.write_text(f"before\n{page.BEGIN}\nold\n{page.END}\nafter\n", encoding="utf-8")
    plain.write_text("no marks", encoding="utf-8")
    assert page.with_block(marked, "new") == f"before\n{page.BEGIN}\nnew\n{page.END}\nafter\n"
    with pytest.raises(ValueError, match=r"plain\.md has no"):
        page.with_block(plain, "new")


def test_page_block_and_figure_are_written_from_the_json_alone_and_changes_are_noticed(
    page, found, tmp_path_factory, monkeypatch
):
    folder = tmp_path_factory.mktemp("docs")
    places = {"PAGE": "results.md", "README": "README.md", "COMPARISON": "comparison.md", "ASSETS": "assets"}
    for name, place in places.items():
        monkeypatch.setattr(page, name, folder / place)
    page.ASSETS.mkdir()
    for marked in (page.README, page.COMPARISON):
        marked.write_text(f"{page.BEGIN}\n{page.END}\n", encoding="utf-8")
    every = ["docs/results.md", "README.md", "docs/comparison.md", "docs/assets/rotmnist-pareto.svg"]
    assert page.stale(found) == every
    (found / "rotmnist-pareto.svg").unlink()
    page.write(found)
    assert page.stale(found) == [] and (page.ASSETS / "rotmnist-pareto.svg").read_text("utf-8").startswith("<svg")
    (found / "rotmnist.json").unlink()
    (found / "rotmnist-pareto.svg").write_text("another", encoding="utf-8")
    assert page.stale(found) == [name for name in every if name != "docs/comparison.md"]  # of another experiment
