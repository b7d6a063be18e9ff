"""The page on results and the tables on other pages, from what ``tokenstn bench`` has written to results/.

    python benchmarks/results_page.py            # docs/results.md, its figures, and the blocks on other pages
    python benchmarks/results_page.py --check    # are they what results/ gives? nothing is written

results/NAME.json is enough: tables and figures are made from it. What has not been run is a line with the command that
would, never a guess.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import fmean

from tokenstn.benchmark.experiment import Experiment
from tokenstn.benchmark.files import read_experiment
from tokenstn.evaluation.bench_results import UPRIGHT, BenchResults, Cell, DataIdentity, OrbitScores, Row
from tokenstn.reports.bench import read_bench, render_bench
from tokenstn.reports.bench_pages import markdown, markdown_table
from tokenstn.reports.bench_tables import BenchTable, Entry, bench_table
from tokenstn.reports.numbers import bare_points, decimal, percent
from tokenstn.reports.trust import BARE_CONFIDENCE, uncertainty_title

ROOT = Path(__file__).parents[1]
PAGE, README, FOUND = ROOT / "docs" / "results.md", ROOT / "README.md", ROOT / "results"
COMPARISON = PAGE.parent / "comparison.md"
ASSETS = PAGE.parent / "assets"
BEGIN, END = "<!-- results: written by benchmarks/results_page.py -->", "<!-- /results -->"

HEAD = """# Results

<!-- written by benchmarks/results_page.py from results/: change these -->

Every method on the same images, from the same trained classifiers, judged over the same orbits: a column says from
which one, and the paper's rows on MedMNIST are of other trainings of theirs. What is on this page was measured by the
command that stands with it; numbers that a paper reports were reached with other weights, images and orbits, stand in
columns of their own and are not comparable. What it costs is on the page about [speed](speed.md).

Ours is the default of today in the tables that were made on a CPU, and on EU-Moths in those of all methods, of the best
system and of [closer readings](#eu-moths-shortcuts-of-the-localizer-and-closer-readings-validation-fold). In everything
else from the H200 one view was enough at fixed odds of 2.5, further views were interpolated bilinearly, and photos in
doubt were not read from closer by; today further views are bicubic, and the odds are found for each classifier, where
there are validation images left: on EU-Moths the final training takes all, and they are 2.5.

An interval says what other images would have given with the trainings that were made. How much these differ is said by
the standard deviation over seeds. On EU-Moths a rival had two tries on fold 1, on which [far more
variants](comparison.md#measured) of ours had been tried before.
"""
TRANSFER = """## A rectifier in front of another classifier

How much of what a rectifier gives moves along with it? Two classifiers were trained on the same images; each got a
rectifier of its own, and then they exchanged them. A rectifier takes the first layers along that it has learned to
read, and nothing is trained again.
"""
# what was exchanged between, by the name of the file
TRANSFERS = {
    "eu-moths": "Two ViT-S/14, fine-tuned from the same weights with different seeds on folds 2 and 3.",
    "mnist": "A ViT and a ResNet, on all of MNIST.",
    "digits": "A ViT of 0.5 M parameters and a ResNet of 8.1 M, on the 5,000 digits inside the package.",
}
TRIED = """## What was tried

How the pixels of a rectified view are read, on one H200: right answers in percent on EU-Moths, fold 1, as they come and
over 8 rotations × 3 scales, with a localizer that reads 4 layers of the photo at 0.36 or 6 of all of it, three seeds;
and on BreastMNIST, test images, over 16 rotations, four seeds of another training than in the table above. Up to 8
views, 20° apart. Bicubic reading gains 0.2 to 0.7 points on turned images, which were blurred once before, and loses
0.3 to 0.7 on images as they come; 5 % closer, turned moths gain 0.2 more, and all else loses. What came of it: the
first view is read bilinearly, and where that is not sure of its answer the others bicubically. On the same photos with
a weaker classifier, trained on a CPU, one seed, that gives 63.1 instead of 62.0 % over the orbit and 64.1 instead of
64.8 % upright.
"""
TRIED_BY_COUNTING = """From the answers to thirty views of every photo of that fold, one seed, beside 81.8 % with as
many as needed, then 10° apart: mirrored views as well gave 0.0 to +0.1 points, votes weighed by their confidence +0.1
to +0.2, means of logarithms −0.2 to −0.1, the mean of all thirty +0.5. One view at the true pose is right on 79.3 %,
one at the estimated pose on 80.0 %: it is not the pose that is missing.
"""
TRIED_ON_THE_LOCALIZER = """What a localizer of 4 layers at 0.36 gets wrong on photos of that fold, 24 poses each, is
seldom a matter of its training: 5.7 % of its angles are more than 30° from what its others for the photo agree on, and
with drop-out of tokens or layers, more weight decay, noise, averaged weights, half as many channels again, or the
tokens of several layers side by side 4.8 to 5.7 %, one seed each, on a CPU. Reading doubtful photos again at three
quarter turns leaves 3.2 %, reading all of them 3.0 %. Of right answers, a photo shrunk to 0.75 costs 1.7 points beside
one at its own size, and one turned by 45° 1.1 beside one turned by 90°, where nothing is interpolated.

The image as it came as one more view, which nothing has blurred, its weight by Bayes' rule for data of which a
twentieth was not moved: −0.4 points (−1.5 … +0.6) on upright images of BreastMNIST and −0.1 (−0.2 … 0.0) over their
rotations, five seeds, on a CPU, beside the default in the table on that set.
"""
TRIED_TO_LOOK_OTHERWISE = """How further views are taken, with classifiers of 980 photos of folds 2 and 3, judged on 12
of 48 poses of each photo of fold 1, three seeds and two localizers (4 layers with closer readings, and 6 of the whole
photo), of the same answers to 39 views: beside 78.1 and 78.6 % over the orbit as it is, mirrored further views give 0.2
and 0.3 points, further views shifted by half a patch 0.0 and −0.2, nearer and farther by 8 % +0.2 and −0.1, all four
kinds at once, four times the views, +0.3 and +0.2; a fixed fan around the best pose, in angle and size, −0.5 and −0.3;
sharpened answers −0.2 to 0.0, votes by confidence +0.1, means of logarithms −0.3. Reading the first rectified view with
the localizer again and looking where that says −0.2 and −0.3. Thirty-four views of every photo, sure or not: +0.5 and
+0.5, which is what looking can still give. Mirrored views mean the same only where left and right carry no meaning, and
are not the default.

How photos in doubt are read, the same classifiers, a localizer that learned 0.36 of the resolution and a closer one in
turns: over the orbit 77.8 % for 0.36 alone (learned alone), 78.3 with four closer readings at half in doubt, 78.2 at
0.71, 78.2 at the whole photo; one closer reading instead of four 77.8, 78.0, 77.9; all photos read closer, and in doubt
four times, 78.2, 78.1, 78.3; reading closer where the answer instead of the angle is in doubt 77.9 to 78.2. The whole
photo, learned alone, gives 78.3.

Why exact quarter turns are read better than diagonal ones, with an EfficientNet-Lite0 of ImageNet, fine-tuned on folds
2 and 3 for 16 epochs, and the rectifier of `tokenstn train` in front of it, fold 1, one seed, on a CPU: 82.9 % right at
exact quarter turns, and 83.0 where these are blurred as much as a turn blurs, so that blur alone is not the reason;
80.5 at diagonal turns, 82.1 there with the corners hidden from the localizer, and 83.0 where the photo was turned with
bicubic interpolation. So the corners do not give the angle away, they disturb, and so does what bilinear interpolation
does to a diagonal turn beside blurring it. A localizer that learned to read the inscribed disc alone, in front of the
same classifier, on 384 of these photos at 8 angles: 83.7 instead of 82.7 %, 82.9 instead of 81.3 at diagonal turns and
84.1 instead of 84.4 upright.
"""
TRIED_TO_READ_OTHERWISE = """With the ViT of the tables and three seeds, on one H200, the disc alone gives nothing: fold
1, {orbit}, right answers in percent. “Lost” are angles more than 30° from the one that the readings of all 24 moved
copies of a photo agree on. Looking with that angle instead of one's own changes 0.1 points at most over the orbit, for
each of these localizers, so that more reliable readings of the same tokens are not what is missing; more of the photo
gives 0.2, and 0.8 upright. Mirrored further views cost as much and gain nothing here. To stop at one view only where
its answer is 6 times as probable as the next one, instead of 2.5, gains 0.1.
"""
QUESTIONS = {
    "rotmnist": "Does a classifier that has only seen upright digits, and stays frozen, read them at every angle?",
    "digits": "How do all methods do on a few thousand small images, where a CPU is enough to train them?",
    "moths-eu": "How do all methods do on the same weights when photos of moths are turned, resized and sheared?",
    "moths-best": "What is the best that can be trained from these weights, frozen or joint, whatever it takes? Six "
    "layers are read of the whole photo, and a rectifier learns at 1e-3 beside a classifier at 1e-4 but for one rate, "
    "1e-4 for both.",
    "medmnist": "What do twelve medical sets gain or lose in accuracy and AUC, upright and turned, with the paper's "
    "recipe and with ours?",
    "breastmnist": "Does the default take nothing from a classifier of upright images, and what do the parts of `auto` "
    "give: how sure one view has to be, and sharper further views? The default was chosen on validation images, but "
    "test figures of several variants had been seen by then.",
    "ablation": "What does each part of the method give? One at a time is left out or exchanged.",
    "digits-ablation": "What does each part of the method give, and how many views are worth their time, with the "
    "default of today and where nothing is to be downloaded? The rates of joint "
    "training were changed once, after the row with 1e-4 for both had been seen on these test digits.",
    "moths-localizer": "How many layers, which resolution, how many tokens and how long a training does a localizer "
    "need? The defaults were chosen here, on fold 1, which no table of test results is judged on.",
    "moths-recipe": "What do mirrored photos, longer training, a second reading where an angle is in doubt, and more "
    "or wider views give? Chosen on the same photos.",
    "moths-views": "How far apart should views be, how many are needed, and when is one enough? Chosen on the same "
    "photos.",
    "moths-closer": "What does a localizer lose that reads less of a photo, and what do closer readings of photos in "
    "doubt give back? The default of today was chosen here, and in explorations on the same photos.",
    "mnist-localizer": "How many layers and tokens does a localizer need of a small image, which it reads whole?",
    "samples": "How many views are worth their time: 1, 2, 4, 8, 16, or as many as an image needs?",
    "moths-ecuador": "Does what holds for EU-Moths hold for the other moths of the paper?",
    "cost": "What does an answer cost in parameters, FLOPs and time, against the number of views? These networks were "
    "trained for one epoch, so that how many views are needed is not to be seen here.",
}
HARDLY_TRAINED = ("cost",)  # for one epoch: how right and how sure these networks are says nothing
# variants of one method, a heap of points in the figure of accuracies
ALL_ALIKE = (
    "digits-ablation",
    "moths-localizer",
    "moths-recipe",
    "moths-views",
    "moths-closer",
    "breastmnist",
    "mnist-localizer",
)
# rows of the experiment moths-eu, and what their cost was measured on: many share a network or a number of views
COSTS_AS = {
    "vanilla": "vanilla", "augmented": "vanilla", "tta": "tta", "its": "its", "stn": "stn", "head-stn": "head-stn",
    "pstn-gamma": "pstn-gamma", "pstn-gauss": "pstn-gamma", "polar": "polar", "logpolar": "polar",
    "diffeo-stn": "diffeo-stn", "diffeo-stn-skew": "diffeo-stn", "canprior-g": "canprior-g", "canprior-s": "canprior-s",
    "tokenstn-gauss": "tokenstn-gauss", "tokenstn-gamma": "tokenstn-gauss", "tokenstn": "tokenstn",
    "tokenstn-six": "tokenstn-six",
}  # fmt: skip
LEFT_OUT = "left out of this run"
COST = "cost of an answer"  # beside the bare classifier
FIGURES = {"pareto": "accuracy over the orbit against upright accuracy", "views": "accuracy against views"}
HEADLINES = (
    ("rotmnist", "mnist", "RotMNIST"),
    ("digits", "mnist-mini", "5,000 digits"),
    ("moths-eu", "eu-moths", "EU-Moths"),
    ("breastmnist", "breastmnist", "BreastMNIST"),
)
HEADLINE_ROWS = {
    "vanilla": "vanilla",
    "augmented": "augmented",
    "tta": "TTA",
    "its": "ITS",
    "stn": "STN",
    "pstn-gamma": "P-STN Gamma",
    "pstn-gauss": "P-STN Gauss",
    "tokenstn-gamma": "the paper's own TokenSTN, Gamma",
    "tokenstn-gauss": "the paper's own TokenSTN, Gauss",
    "tokenstn": "TokenSTN (ours)",
    "tokenstn-six": "– reading six layers of the whole photo",
}


def render(found: Path) -> str:
    """The page."""
    run = any(read(found, name) is not None for name, _, _ in HEADLINES)
    short = [f"## In short\n\n{headline(found, 'tables below')}"] if run else []
    more = [*transfer(found), *tried(found)]
    return "\n\n".join([HEAD.strip(), *short, *(section(found, name) for name in QUESTIONS), *more]) + "\n"


def transfer(found: Path) -> list[str]:
    """Rectifiers that were exchanged, from results/transfer-NAME.json."""
    there = [part for name in TRANSFERS for part in exchanged(found / f"transfer-{name}.json", name)]
    return [TRANSFER.strip(), *there] if there else []


def exchanged(path: Path, name: str) -> list[str]:
    """Between which networks, a table, and where it comes from; nothing where it has not been run."""
    if not path.exists():
        return []
    measured = json.loads(path.read_text(encoding="utf-8"))
    lines = [(way, f"{row['upright']:.1f}", f"{row['orbit']:.1f}") for way, row in measured["rows"].items()]
    pairs = len(measured["by_seed"])
    shares = " and ".join(f"{share:.0%}".replace("%", " %") for share in measured["share_of_the_gain"].values())
    words = (
        f"Of what its own rectifier gives a classifier over the orbit, the other one gives {shares}. Right answers in "
        f"percent, {measured['data']}, {measured['orbit']}, {pairs} pair{'s' * (pairs > 1)}; "
        f"`python benchmarks/transfer.py {name}`, {measured['device']}, torch {measured['versions']['torch']}."
    )
    return [TRANSFERS[name], table(("", "upright", "orbit"), lines), words]


def tried(found: Path) -> list[str]:
    """Other ways to make the rectified views, from results/tried.json."""
    if not (found / "tried.json").exists():
        return []
    ways = json.loads((found / "tried.json").read_text(encoding="utf-8"))["ways"]
    places = list(next(iter(ways.values())))
    columns = [(place, figure) for place in places for figure in ("upright", "orbit")]
    rows = [(way, *(f"{fmean(seen[place][figure]):.1f}" for place, figure in columns)) for way, seen in ways.items()]
    head = ("", *(f"{place}, {figure}" for place, figure in columns))
    return [
        TRIED.strip(),
        table(head, rows),
        TRIED_BY_COUNTING.strip(),
        TRIED_ON_THE_LOCALIZER.strip(),
        TRIED_TO_LOOK_OTHERWISE.strip(),
        *tried_to_read(found / "tried-localizers.json"),
    ]


def tried_to_read(path: Path) -> list[str]:
    """Other ways to read photos, from results/tried-localizers.json."""
    measured = json.loads(path.read_text(encoding="utf-8"))
    ways = measured["ways"]
    looks = [look for look, seen in next(iter(ways.values())).items() if isinstance(seen, dict)]
    columns = [(look, figure) for look in looks for figure in ("upright", "orbit")]
    rows = [
        (way, f"{fmean(seen['lost']):.1f}", *(f"{fmean(seen[look][figure]):.1f}" for look, figure in columns))
        for way, seen in ways.items()
    ]
    head = ("the localizer reads", "lost", *(f"{look}, {figure}" for look, figure in columns))
    return [TRIED_TO_READ_OTHERWISE.strip().format(orbit=measured["orbit"]), table(head, rows)]


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A table in Markdown; all columns but the first to the right."""
    head = list(head)
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *([str(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def section(found: Path, name: str) -> str:
    """One experiment: what is asked, and what ``tokenstn bench`` says of it, its headings one level lower."""
    experiment, results = read_experiment(name), read(found, name)
    if results is None:
        return "\n\n".join([f"## {experiment.title}", QUESTIONS[name], not_yet(experiment)])
    results = completed(results, experiment)
    heading, said = re.sub("^#", "##", markdown(results), flags=re.MULTILINE).split("\n", 1)
    shown = [f"![{what}](assets/{path.name})" for path, what in figures(found, name).items()]
    trust = [] if name in HARDLY_TRAINED else trusted(results)
    return "\n\n".join([heading, QUESTIONS[name], said.strip(), *shown, *trust])


def read(found: Path, name: str) -> BenchResults | None:
    """What an experiment has found, None where it has not been run. A quick run has another name: it shows nothing."""
    path = found / f"{name}.json"
    if not path.exists():
        return None
    results = _read(path, path.stat().st_mtime_ns)
    if results.experiment != name:
        raise ValueError(f"{path} holds the results of {results.experiment}, not of {name}")
    return results


@cache
def _read(path: Path, changed: int) -> BenchResults:
    """Several pages show the same experiment, and a file of some megabytes takes a second."""
    return read_bench(path)


def not_yet(experiment: Experiment) -> str:
    """A line in the place of tables: the command, and the files that it reads."""
    classifiers = (experiment.classifier_of(data) for data in experiment.data)
    sources = [data.source for data in experiment.data.values()]
    files = dict.fromkeys([*sources, *(one.weights for one in classifiers if one.weights is not None)])
    name = experiment.name
    return f"Not run yet: `tokenstn bench {name}` makes results/{name}.json; it reads {', '.join(files)}."


def completed(results: BenchResults, experiment: Experiment) -> BenchResults:
    """With an empty row for every method, and an empty table for every data set, that a run has left out."""
    rows = {
        name: Row(name, spec.title or name, spec.method or name, "", str(spec.views), LEFT_OUT)
        for name, spec in experiment.methods.items()
    }
    data = {
        name: DataIdentity(name, spec.title or name, spec.source, {}, {}, 0, LEFT_OUT)
        for name, spec in experiment.data.items()
    }
    rows |= {row.name: row for row in results.rows}
    data |= {one.name: one for one in results.data}
    return replace(results, rows=tuple(rows.values()), data=tuple(data.values()))


def figures(found: Path, name: str) -> dict[Path, str]:
    """Those that stand beside NAME.json, and what they show."""
    left_out = FIGURES if name in HARDLY_TRAINED else ("pareto",) if name in ALL_ALIKE else ()
    places = {found / f"{name}-{kind}.svg": what for kind, what in FIGURES.items() if kind not in left_out}
    return {path: what for path, what in places.items() if path.exists()}


def trusted(results: BenchResults) -> list[str]:
    """Of the reference row: how well its uncertainties tell errors, its controls, and whether a pose collapsed."""
    tables = [table for table in (uncertainty(results), controls(results)) if table.names]
    return [*(f"### {table.title}\n\n{markdown_table(table).strip()}" for table in tables), *collapse(results)]


def uncertainty(results: BenchResults) -> BenchTable:
    """Means over the seeds, over the first orbit; a line for each uncertainty of each data set."""
    names, lines = [], []
    for data in results.data:
        scores = _over_first_orbit(results, data.name)
        for name in dict.fromkeys(name for one in scores for name in one.uncertainty):
            doubts = [one.uncertainty[name] for one in scores if name in one.uncertainty]
            names.append(f"{data.title}: {uncertainty_title(name)}")
            lines.append(
                (
                    _mean((doubt.class_auroc for doubt in doubts), decimal),
                    _mean((doubt.pose_auroc for doubt in doubts), decimal),
                    _mean((doubt.aurc for doubt in doubts), decimal),
                    _mean((doubt.accuracy_at_80 for doubt in doubts), percent),
                    _mean((doubt.accuracy_at_90 for doubt in doubts), percent),
                )
            )
    remark = (
        "AUROC: of telling wrong classes, and poses that failed, from right ones; AURC: area under risk against "
        f"coverage, the smaller the better. “{uncertainty_title(BARE_CONFIDENCE)}” sorts the classifier's own answers; "
        "all others sort those of this row."
    )
    title = f"Uncertainty of “{_title(results)}” over {results.orbits[0].name}"
    columns = ("AUROC, class", "AUROC, pose", "AURC", "accuracy at 80 % coverage", "at 90 %")
    remarks = (remark, *(said for data in results.data if (said := calibration(results, data))))
    return BenchTable(title, columns, tuple(names), tuple(lines), remarks)


def calibration(results: BenchResults, data: DataIdentity) -> str:
    """How far probabilities are from being right so often, of the reference row and beside it of the classifiers."""
    orbit = results.orbits[0].name
    found = {}
    for row in results.rows:
        if row.name in (results.reference, "vanilla", "augmented"):
            cells = results.cells_of(row.name, data.name)
            errors = [cell.orbits[orbit].ece for cell in cells if orbit in cell.orbits]
            known = [error for error in errors if error is not None]
            if known:
                found[row.title] = decimal(fmean(known))
    if _title(results) not in found:
        return ""
    return (
        f"Expected calibration error of the probabilities, {data.title}: "
        f"{', '.join(f'“{title}” {error}' for title, error in found.items())}."
    )


def controls(results: BenchResults) -> BenchTable:
    """Means over the seeds; a line for each control of each data set, and what those say that warn."""
    names, lines, remarks = [], [], []
    for data in results.data:
        found = [control for one in _over_first_orbit(results, data.name) for control in one.controls]
        for name in dict.fromkeys(control.name for control in found):
            same = [control for control in found if control.name == name]
            warnings = [control.sentence for control in same if control.warns]
            names.append(f"{data.title}: {name}")
            lines.append(
                (
                    _mean((control.accuracy for control in same), percent),
                    _mean((control.reference for control in same), percent),
                    _mean((control.accuracy - control.reference for control in same), bare_points),
                    _mean((control.bare_accuracy for control in same), percent),
                    Entry(f"{len(warnings)} of {len(same)}"),
                )
            )
            remarks += [f"{data.title}: {sentence}" for sentence in warnings]
    columns = ("accuracy", "ordinarily", "apart, points", "classifier alone", "seeds that warn")
    return BenchTable(f"Controls of “{_title(results)}”", columns, tuple(names), tuple(lines), tuple(remarks))


def collapse(results: BenchResults) -> list[str]:
    """Two lines: the primitives whose pose is the same whatever is shown, in training or over the first orbit."""
    cells = [cell for data in results.data for cell in results.cells_of(results.reference, data.name)]
    if not cells:
        return []
    titles = {data.name: data.title for data in results.data}
    found = [
        f"{', '.join(names)} ({titles[cell.data]}, seed {cell.seed})"
        for cell in cells
        if (names := _collapsed(cell, results))
    ]
    lines = [f"Collapsed poses of “{_title(results)}”: {'; '.join(found) or 'none with any seed'}."]
    others = [
        f"{row.title}{f' on {data.title}' * (len(results.data) > 1)} {share}"
        for data in results.data
        for row in results.rows
        if row.name != results.reference and (share := _seeds_that_collapse(results, row.name, data.name))
    ]
    if others:
        lines.append(
            f"Of the other rows a pose collapsed with some seeds: {'; '.join(others)}. It is then nearly the same "
            "whatever an image shows, or at the end of its range for most images, and what such a row gains it gains "
            "as a classifier."
        )
    return lines


def _seeds_that_collapse(results: BenchResults, row: str, data: str) -> str:
    """Such as "rotation 3 of 3, scale 1 of 3"; nothing where no pose collapsed."""
    cells = results.cells_of(row, data)
    counts = Counter(name for cell in cells for name in _collapsed(cell, results))
    return ", ".join(f"{name} {count} of {len(cells)}" for name, count in counts.items())


def _collapsed(cell: Cell, results: BenchResults) -> list[str]:
    judged = cell.orbits.get(results.orbits[0].name)
    poses = {} if judged is None else judged.pose
    return list(dict.fromkeys([*cell.collapsed, *(name for name, pose in poses.items() if pose.collapsed)]))


def _over_first_orbit(results: BenchResults, data: str) -> list[OrbitScores]:
    """Of the reference row, one for each seed."""
    orbit = results.orbits[0].name
    return [cell.orbits[orbit] for cell in results.cells_of(results.reference, data) if orbit in cell.orbits]


def _title(results: BenchResults) -> str:
    return next((row.title for row in results.rows if row.name == results.reference), results.reference)


def _mean(values: Iterable[float | None], written: Callable[[float], str]) -> Entry:
    known = [value for value in values if value is not None]
    return Entry(written(fmean(known))) if known else Entry()


def headline(found: Path, whole: str = "[full tables](docs/results.md)") -> str:
    """The block in the README: upright and over the first orbit, for the methods that people know.

    whole: where the other rows are.
    """
    measured, missing = [], []
    for name, data, title in HEADLINES:
        results = read(found, name)
        if results is None:
            missing.append(f"{title}: not run yet")
        else:
            measured.append((completed(results, read_experiment(name)), data, title))
    if not measured:
        return "How the methods compare is being measured: [results](docs/results.md), [speed](docs/speed.md)."
    columns = [(results, data, column) for results, data, _ in measured for column in (UPRIGHT, results.orbits[0].name)]
    heads = [f"{title}, {column}" for results, _, title in measured for column in (UPRIGHT, results.orbits[0].name)]
    lines = {title: tuple(entry(*column, row) for column in columns) for row, title in HEADLINE_ROWS.items()}
    run = {title: line for title, line in lines.items() if any(one.value is not None for one in line)}
    missing += (
        [f"{', '.join(title for title in lines if title not in run)}: not run yet"] if len(run) < len(lines) else []
    )
    table = BenchTable("", tuple(heads), tuple(run), tuple(run.values()), tuple(missing))
    judged = "; ".join(f"{title} {_seeds_and_orbit(results)}" for results, _, title in measured)
    words = (
        f"Right answers in percent, mean ± standard deviation over retrained seeds ({judged}); bold is the best of all "
        f"rows of that experiment in the {whole}, where paired differences, tuning, hardware and commands stand as "
        "well. On BreastMNIST, 156 test images, figures of several variants had been seen before the default was "
        "fixed; on RotMNIST ours is of a default before that of today."
    )
    return f"{markdown_table(table)}\n{words}"


def entry(results: BenchResults, data: str, column: str, row: str) -> Entry:
    """What the full table has for a row and a column; nothing for a row that the experiment does not have."""
    table = bench_table(results, data)
    rows = [one.name for one in results.rows]
    if row not in rows:
        return Entry()
    line = table.entries[rows.index(row)]
    return line[table.columns.index(column)]


def _seeds_and_orbit(results: BenchResults) -> str:
    orbit = results.orbits[0]
    sizes = f" × {len(orbit.scales)} scales" if len(orbit.scales) > 1 else ""
    return f"{len(results.seeds)}, {orbit.name}: {orbit.angles} angles{sizes}"


def compared(found: Path) -> str:
    """The block on the page that compares: every method on EU-Moths, the best over the first orbit first."""
    results = read(found, "moths-eu")
    if results is None:
        return not_yet(read_experiment("moths-eu"))
    table = bench_table(results, results.data[0].name)
    shown = (UPRIGHT, *(orbit.name for orbit in results.orbits), "trained")
    wanted = [column for column, name in enumerate(table.columns) if name in shown]
    by_orbit = table.columns.index(results.orbits[0].name)
    order = sorted(range(len(table.names)), key=lambda line: table.entries[line][by_orbit].value or 0.0, reverse=True)
    lines, costs = [tuple(table.entries[line][column] for column in wanted) for line in order], costs_of(found)
    heads = [table.columns[column] for column in wanted]
    if costs:
        heads.append(COST)
        rows = [results.rows[line].name for line in order]
        lines = [(*line, Entry(costs.get(row, "–"))) for row, line in zip(rows, lines, strict=True)]
    chosen = BenchTable("", tuple(heads), tuple(table.names[line] for line in order), tuple(lines), ())
    seeds = f"{len(results.seeds)} retrained seeds" if len(results.seeds) > 1 else "one seed"
    words = f"Right answers in percent, {seeds}; `{results.command}`, {results.hardware['devices']}."
    return f"{markdown_table(chosen)}\n{words}"


def costs_of(found: Path) -> dict[str, str]:
    """Row of moths-eu → the time of an answer, in those of the bare classifier; nothing where it was not measured."""
    path = found / "speed" / "h200_methods.json"
    if not path.exists():
        return {}
    measured = json.loads(path.read_text(encoding="utf-8"))["rows"]
    return {row: f"{measured[name]['ratio']:.1f}×" for row, name in COSTS_AS.items()}


def with_block(page: Path, block: str) -> str:
    """A page with another block between its marks."""
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page.name} has no {BEGIN} … {END}")
    return f"{before}{BEGIN}\n{block}\n{END}{after}"


def pages(found: Path) -> dict[str, tuple[Path, str]]:
    """Every page that is written from results/, or has a block that is: its place, and what it should be."""
    return {
        "docs/results.md": (PAGE, render(found)),
        "README.md": (README, with_block(README, headline(found))),
        "docs/comparison.md": (COMPARISON, with_block(COMPARISON, compared(found))),
    }


def write(found: Path) -> list[str]:
    """The pages, whose names it gives, and the figures: drawn again, since those beside a new NAME.json may be old."""
    for name in QUESTIONS:
        if read(found, name) is not None:
            render_bench(found / f"{name}.json")
        for path in figures(found, name):
            (ASSETS / path.name).write_bytes(path.read_bytes())
    written = pages(found)
    for page, text in written.values():
        page.write_text(text, encoding="utf-8")
    return list(written)


def stale(found: Path) -> list[str]:
    """Files that are not what results/ gives."""
    same = {
        name: page.exists() and page.read_text(encoding="utf-8") == text for name, (page, text) in pages(found).items()
    }
    for path in (path for name in QUESTIONS for path in figures(found, name)):
        copy = ASSETS / path.name
        same[f"docs/assets/{path.name}"] = copy.exists() and copy.read_bytes() == path.read_bytes()
    return [name for name, is_same in same.items() if not is_same]


def main() -> None:
    """Write the pages, or compare them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        if files := stale(FOUND):
            sys.exit(f"not what results/ gives: {', '.join(files)}; run python benchmarks/results_page.py")
        return
    print(f"written: {', '.join(write(FOUND))}")


if __name__ == "__main__":
    main()
