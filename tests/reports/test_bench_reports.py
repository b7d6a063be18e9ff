"""Tables and figures of a benchmark against hand computations."""

from dataclasses import replace
from statistics import stdev
from xml.etree import ElementTree

import pytest

from tokenstn.evaluation.bench_results import (
    BENCH_SCHEMA,
    BenchResults,
    Cell,
    Comparison,
    DataIdentity,
    OrbitIdentity,
    OrbitScores,
    Row,
    Try,
    Tuning,
)
from tokenstn.evaluation.metrics_json import plain, restored
from tokenstn.evaluation.results import ClassFlips, Cost, Flips, Interval
from tokenstn.reports.bench_figures import curve_plot, pareto_plot, pareto_points
from tokenstn.reports.bench_pages import in_words, latex, markdown
from tokenstn.reports.bench_tables import REPORTED, bench_tables
from tokenstn.reports.svg import standalone_svg


def scores(upright: float, mean: float, flips: Flips | None = None, auc: float = 0.9) -> OrbitScores:
    return OrbitScores(
        images=100, upright=upright, mean=mean, worst=mean - 0.1, consistency=0.8, auc_upright=auc, auc=auc - 0.05,
        by_element=None, by_class=None, ece=None, views=2.0, flips=flips, entropy={}, uncertainty={}, pose={},
        controls=(),
    )  # fmt: skip


def cost(parameters: int) -> Cost:
    return Cost(10, 5, parameters, ((0, 1e9), (2, 3e9)), ((0, 1000.0), (2, 250.0)), 8, None, None, None, "cpu")


def cells(row: str, figures: list[tuple[float, float]], flips: Flips | None = None) -> list[Cell]:
    return [
        Cell(row, "moths", seed, "done", orbits={"turns": scores(*pair, flips)}, cost=cost(2_500_000), train_seconds=30)
        for seed, pair in enumerate(figures)
    ]


FLIPS = Flips(ClassFlips(30, 40, 5, 50), ())


@pytest.fixture
def results() -> BenchResults:
    """Three finished rows with two seeds each, one that failed, and one that was never built."""
    difference = Interval(-0.0525, -0.08, -0.02)
    return BenchResults(
        schema=BENCH_SCHEMA,
        experiment="toy",
        title="A toy",
        quick=False,
        command="tokenstn bench toy",
        created="2026-01-01",
        wall_seconds=10.0,
        task_seconds=20.0,
        versions={"torch": "2"},
        hardware={"devices": "cpu"},
        seeds=(0, 1),
        tries=1,
        reference="ours",
        rows=(
            Row("bare", "vanilla_1 & co", "vanilla", "classifier", "auto"),
            Row("stn", "STN", "stn", "pixels", "auto"),
            Row("ours", "ours", "tokenstn", "ours", "auto"),
            Row("gone", "gone", "its", "search", "auto"),
            Row("never", "never", "its", "search", "auto", missing="not built"),
        ),
        data=(
            DataIdentity("moths", "Moths", "m.zip", {"test": 100}, {"test": "ab" * 32}, 3),
            DataIdentity("other", "Other moths", "o.zip", {}, {}, 0, "there is no o.zip"),
        ),
        orbits=(OrbitIdentity("turns", "rotation", 16, 16, (1.0,), 0.0, False),),
        classifiers=(),
        cells=(
            *cells("bare", [(0.90, 0.50), (0.92, 0.54)]),
            *cells("stn", [(0.80, 0.82), (0.82, 0.84)], FLIPS),
            *cells("ours", [(0.90, 0.88), (0.91, 0.885)], FLIPS),
            Cell("gone", "moths", 0, "failed", "ValueError: no memory"),
            *(Cell(row, "other", 0, "absent", "there is no o.zip") for row in ("bare", "stn", "ours")),
        ),
        comparisons=(Comparison("stn", "ours", "moths", "turns", difference, (-0.06, -0.045), True),),
        tuning=(),
        columns=(
            "upright",
            "turns",
            "turns.difference",
            "auc",
            "fixed",
            "broken",
            "parameters",
            "flops",
            "ms",
            "ratio",
        ),
        reported={"moths": {"turns": {"stn": 94.9}}},
    )


def test_means_deviations_and_the_best_are_those_of_a_hand_computation(results):
    table = bench_tables(results)[0]
    entry = {
        (name, column): cell
        for name, line in zip(table.names, table.entries, strict=True)
        for column, cell in zip(table.columns, line, strict=True)
    }
    assert entry["vanilla_1 & co", "upright"].text == f"91.0 ± {100 * stdev([0.90, 0.92]):.1f}"
    assert entry["STN", "turns"].text == "83.0 ± 1.4"
    assert entry["STN", "Δ turns"].text == "−5.2 (−8.0 … −2.0)*"
    assert entry["ours", "Δ turns"].text == "reference"
    assert entry["STN", "AUC"].text == "0.900 ± 0.000"
    assert entry["STN", "fixed"].text == "75.0 ± 0.0" and entry["STN", "broken"].text == "10.0 ± 0.0"
    assert entry["STN", "added"].text.startswith("2.5") and entry["STN", "FLOPs"].text.startswith("3.0")
    assert entry["STN", "ms"].text == "4.00" and entry["STN", "× bare"].text == "4.00×"
    assert [name for name in table.names if entry[name, "upright"].bold] == ["vanilla_1 & co"]
    assert [name for name in table.names if entry[name, "turns"].bold] == ["ours"]
    assert entry["gone", "turns"].text == "–" and entry["never", "turns"].text == "–"
    assert not entry["STN", "added"].bold


def test_numbers_of_a_paper_stand_in_a_column_of_their_own_and_are_never_bold(results):
    table = bench_tables(results)[0]
    place = table.columns.index(f"turns ({REPORTED})")
    assert [line[place].text for line in table.entries] == ["–", "94.9", "–", "–", "–"]
    assert not any(line[place].bold for line in table.entries)


def test_data_that_were_not_at_hand_share_a_table_with_what_a_paper_reports_of_them(results):
    third = replace(results.data[1], name="third", title="Third moths", missing="there is no t.zip")
    told = {"other": {"turns": {"stn": 94.9}}, "third": {"turns": {"bare": 61.2}}}
    measured, absent = bench_tables(replace(results, data=(*results.data, third), reported=told))
    assert measured.title == "Moths" and absent.names == ("Other moths", "Third moths")
    assert absent.columns == ("measured", f"STN, turns ({REPORTED})", f"vanilla_1 & co, turns ({REPORTED})")
    assert [[cell.text for cell in line] for line in absent.entries] == [["–", "94.9", "–"], ["–", "–", "61.2"]]
    assert absent.remarks[1] == "Third moths not run: there is no t.zip"


def test_a_row_that_comes_to_the_reference_is_called_the_same(results):
    again = tuple(replace(cell, row="stn") for cell in results.cells if cell.row == "ours")
    others = tuple(cell for cell in results.cells if cell.row != "stn")
    table = bench_tables(replace(results, cells=(*others, *again)))[0]
    place = table.columns.index("Δ turns")
    assert {name: line[place].text for name, line in zip(table.names, table.entries, strict=True)} == {
        "vanilla_1 & co": "–", "STN": "the same", "ours": "reference", "gone": "–", "never": "–",
    }  # fmt: skip


def test_a_seed_that_failed_is_said(results):
    fewer = replace(results, cells=tuple(c for c in results.cells if (c.row, c.seed) != ("stn", 1)))
    line = bench_tables(fewer)[0].entries[1]
    assert line[1].text == "82.0 (1 of 2 seeds)"


def test_the_page_has_the_command_the_failures_and_what_is_missing(results):
    page = markdown(results)
    for part in (
        "`tokenstn bench toy`", "**88.2 ± 0.4**", "gone: failed for seed 0: ValueError: no memory",
        "never: not run, not built", "not run: there is no o.zip", "2 retrained seeds (0, 1)", "abababababab",
    ):  # fmt: skip
        assert part in page, part
    lines = page.split("## Moths")[1].split("## Not at hand")[0].splitlines()
    assert {line.count("|") for line in lines if line.startswith("|")} == {13}  # as many places in every line


def test_times_are_compared_with_the_classifier_beside_them_and_a_page_of_costs_speaks_of_nothing_else(results):
    slower = replace(cost(7), throughput=((0, 500.0), (2, 100.0)))  # the machine was half as fast meanwhile
    cells = [replace(c, cost=slower) if c.row == "stn" else c for c in results.cells]
    page = markdown(replace(results, cells=tuple(cells), columns=("parameters", "ratio"), reported={}))
    page = page.replace("\u202f", " ")
    assert "| STN | 7 | 5.00× |" in page and "| ours | 2.5 M | 4.00× |" in page
    costs = page.split("## Cost of one image")[1]
    assert "| STN | Moths | 8 | 1.0 G, 2.00 ms | 3.0 G, 5.00× |" in costs
    assert "× bare: the time of an answer" in page
    assert "Percent" not in page and "Δ: points" not in page and "best is bold" not in page


def test_the_page_says_who_was_tuned_and_over_which_orbit_and_what_images_were_judged(results):
    tries = (Try({}, 0.5, "a"), Try({"views": 4}, 0.6, "b"))
    tuned = replace(results, tries=2, tuning=(Tuning("stn", "moths", "shears", 0, tries, 1),))
    page = markdown(replace(tuned, data=(replace(results.data[0], judged="val"),)))
    assert "Tuning: up to 2 tries for a row, on validation images, with one seed; not tuned: vanilla_1" in page
    assert "| accuracy over shears |" in page and "STN" not in page.split("not tuned: ")[1].split(".")[0]
    assert "Moths: 100 validation; 3 classes; validation images sha256 abababababab" in page


def test_latex_escapes_what_it_would_read_as_commands(results):
    text = latex(results)
    assert r"vanilla\_1 \& co" in text and r"$\pm$" in text and r"\textbf{" in text
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 2
    body = text.split(r"\midrule")[1].split(r"\bottomrule")[0]
    assert {line.replace(r"\&", "").count("&") for line in body.strip().splitlines()} == {11}


def test_the_front_holds_whom_no_other_beats(results):
    assert {p.title for p in pareto_points(results, "moths") if p.best} == {"vanilla_1 & co", "ours"}
    plot = pareto_plot(results)
    assert plot is not None and len(plot.rows) == 3
    svg = standalone_svg(plot)
    ElementTree.fromstring(svg)
    assert "ours" in svg and "STN" in svg and "classifier alone" in svg


def test_rows_that_name_a_number_of_views_become_curves(results):
    assert curve_plot(results) is None
    named = replace(
        results,
        rows=tuple(
            replace(row, line="probable", at=at) for row, at in zip(results.rows[:3], (1.0, 2.0, 4.0), strict=True)
        ),
    )
    plot = curve_plot(named)
    assert plot is not None
    orbit = [row for row in plot.rows if row[2] == "turns"]
    assert [row[3] for row in orbit] == [1.0, 2.0, 4.0] and orbit[0][4] == pytest.approx(0.52)


def test_results_survive_json(results):
    assert restored(BenchResults, plain(results), "toy") == results


def test_a_try_in_words():
    assert in_words({}) == "as it is"
    assert in_words({"options": {"shared": 4}, "recipe": {"rate": 0.1}}) == "options.shared 4, recipe.rate 0.1"


@pytest.mark.parametrize(
    ("method", "recipe", "said"),
    [
        ("vanilla", None, "augmented classifier as it is"),
        ("stn", {"classifier": "joint", "classification": 0.0}, "augmented classifier, half frozen; labels"),
        ("tokenstn", {"classifier": "frozen", "classification": 0.0}, "augmented classifier, frozen; no labels"),
        ("tokenstn-matrix", {"classifier": "frozen", "classification": 0.0}, "augmented classifier, frozen; labels"),
        ("tokenstn-gauss", {"classifier": "frozen", "classification": 1.0}, "augmented classifier, frozen; labels"),
    ],
)
def test_a_row_says_what_it_stands_on_and_what_it_was_shown(results, method, recipe, said):
    cell = Cell("ours", "moths", 0, "done", classifier="augmented", settings={"method": method, "recipe": recipe})
    kept = tuple(other for other in results.cells if other.row != "ours")
    table = bench_tables(replace(results, cells=(*kept, cell), columns=("trained",)))[0]
    assert table.entries[table.names.index("ours")][0].text == said
    assert table.entries[table.names.index("gone")][0].text == "–"
