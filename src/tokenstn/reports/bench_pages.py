"""A benchmark's results as a page in Markdown and as tables in LaTeX."""

from __future__ import annotations

import html
from collections.abc import Iterable
from statistics import fmean

from tokenstn.evaluation.bench_results import BenchResults
from tokenstn.reports.bench_columns import milliseconds
from tokenstn.reports.bench_tables import REPORTED, UNRANKED, BenchTable, bench_tables, default_columns
from tokenstn.reports.numbers import NONE, big, count, duration


def markdown(results: BenchResults) -> str:
    """The whole page: what was run, the tables, what failed, and where the figures come from."""
    parts = [f"# {_cell(results.title)}\n", _about(results)]
    for table in bench_tables(results):
        parts += [f"## {_cell(table.title)}\n", markdown_table(table)]
    parts += [_tuning(results)] if any(len(tuning.tries) > 1 for tuning in results.tuning) else []
    parts += [_costs(results)] if any(cell.cost and cell.cost.flops for cell in results.cells) else []
    return "\n".join(parts)


def markdown_table(table: BenchTable) -> str:
    """A table in Markdown, its remarks below it."""
    widths = " | ".join("---" for _ in table.columns)
    lines = [f"| | {' | '.join(map(_cell, table.columns))} |", f"|---| {widths} |"]
    for name, entries in zip(table.names, table.entries, strict=True):
        texts = (f"**{_cell(e.text)}**" if e.bold else _cell(e.text) for e in entries)
        lines.append(f"| {_cell(name)} | {' | '.join(texts)} |")
    remarks = ["", *(f"- {_cell(remark)}" for remark in table.remarks)] if table.remarks else []
    return "\n".join([*lines, *remarks]) + "\n"


def latex(results: BenchResults) -> str:
    """The tables for a paper: booktabs, one ``table`` each."""
    parts = [f"% {results.title}: {results.command}, {results.created}", "% needs \\usepackage{booktabs}"]
    for table in bench_tables(results):
        lines = [" & ".join(["", *map(_tex, table.columns)]) + r" \\", r"\midrule"]
        for name, entries in zip(table.names, table.entries, strict=True):
            texts = (rf"\textbf{{{_tex(e.text)}}}" if e.bold else _tex(e.text) for e in entries)
            lines.append(" & ".join([_tex(name), *texts]) + r" \\")
        caption = " ".join([f"{table.title}.", *(f"{remark}." for remark in table.remarks)])
        parts += [
            r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{l{'r' * len(table.columns)}}}", r"\toprule",
            *lines, r"\bottomrule", r"\end{tabular}", rf"\caption{{{_tex(caption)}}}", r"\end{table}",
        ]  # fmt: skip
    return "\n".join(parts) + "\n"


def _about(results: BenchResults) -> str:
    lines = [f"`{results.command}`", ""]
    seeds = ", ".join(map(str, results.seeds))
    spread = ", ± their standard deviation" if len(results.seeds) > 1 else ""
    several = "retrained seeds" if len(results.seeds) > 1 else "seed"
    shown = results.columns or default_columns(results)
    unit = "; the best is bold" if set(shown) - set(UNRANKED) else ""
    lines.append(f"{'Percent; m' if unit else 'M'}ean over {len(results.seeds)} {several} ({seeds}){spread}{unit}.")
    compared = any(column.endswith(".difference") for column in shown)
    if compared and any(row.name == results.reference for row in results.rows):
        title = next(row.title for row in results.rows if row.name == results.reference)
        lines.append(
            f"Δ: points to “{title}”, paired image by image over all seeds, with a 95 % interval clustered by image; "
            "* where it leaves out 0."
        )
    if "fixed" in shown or "broken" in shown:
        lines.append(
            "Fixed: share of the vanilla classifier's wrong answers over the first orbit that are right; broken: of "
            "its right ones that are wrong."
        )
    if "parameters" in shown:
        lines.append("Added: parameters beside the classifier.")
    if "ratio" in shown:
        lines.append(
            "× bare: the time of an answer beside that of the classifier alone, in turns with it, with as many images "
            "at once as the last table says."
        )
    for orbit in results.orbits:
        extra = "".join(
            (f", each image sheared at random up to {orbit.first_shear:g} first" if orbit.first_shear else "",
             ", only the inscribed disc is shown" if orbit.mask else "")
        )  # fmt: skip
        scales = ", ".join(f"{scale:.3g}" for scale in orbit.scales)
        zoom = f" × scales {scales}" if len(orbit.scales) > 1 else ""
        angle = "angle" if orbit.angles == 1 else "angles"
        lines.append(f"Orbit “{orbit.name}”: {orbit.group}, {count(orbit.angles)} {angle}{zoom}{extra}.")
    for data in results.data:
        if data.missing is None:
            names = {"test": "validation" if data.judged == "val" else "test"}
            images = ", ".join(f"{count(number)} {names.get(split, split)}" for split, number in data.images.items())
            sha256 = f"{names['test']} images sha256 {data.sha256.get('test', '')[:12]}…"
            lines.append(f"{data.title}: {images}; {count(data.classes)} classes; {sha256}.")
    if results.tries > 1:
        tuned = {tuning.row for tuning in results.tuning if len(tuning.tries) > 1}
        once = [row.title for row in results.rows if row.missing is None and row.name not in tuned]
        left = f"; not tuned: {', '.join(once)}" if once else ""
        lines.append(f"Tuning: up to {results.tries} tries for a row, on validation images, with one seed{left}.")
    if results.reported:
        lines.append(f"Columns “{REPORTED}”: {results.reported_source or 'numbers of the paper'}.")
    versions = ", ".join(f"{name} {version}" for name, version in results.versions.items())
    where = results.hardware.get("devices") or "nothing was run"
    lines.append(
        f"{where}; {duration(results.task_seconds)} of computing in all cells "
        f"({duration(results.wall_seconds)} in this start); {versions}; {results.created}."
    )
    return "\n".join(lines[:2]) + "\n" + "  \n".join(lines[2:]) + "\n"


def _tuning(results: BenchResults) -> str:
    orbits = dict.fromkeys(tuning.orbit for tuning in results.tuning)
    head = f"| | data | tried on validation images | accuracy over {', '.join(orbits)} |"
    lines = ["## Tuning", "", head, "|---|---|---|---|"]
    titles = {row.name: row.title for row in results.rows}
    for tuning in results.tuning:
        if len(tuning.tries) < 2:
            continue
        for place, one in enumerate(tuning.tries):
            score = one.reason if one.score is None else f"{100 * one.score:.1f}"
            score = f"**{score}**" if place == tuning.chosen else score
            lines.append(f"| {_cell(titles[tuning.row])} | {tuning.data} | {_cell(in_words(one.changes))} | {score} |")
    return "\n".join(lines) + "\n"


def _costs(results: BenchResults) -> str:
    """FLOPs and time of one image against the number of views, where they were measured.

    The rows were timed one after the other, and a machine is not always as fast: only the ratios compare.
    """
    found = {
        (row.title, data.title): [c.cost for c in results.cells_of(row.name, data.name) if c.cost and c.cost.flops]
        for data in results.data
        for row in results.rows
    }
    found = {names: costs for names, costs in found.items() if costs}
    views = sorted({number for costs in found.values() for cost in costs for number, _ in cost.flops} - {0})
    heads = ["batch", "bare", *(f"{n} view{'s' if n > 1 else ''}" for n in views)]
    lines = ["## Cost of one image: FLOPs, and time beside the bare classifier in turns with it", ""]
    lines += [f"| | data | {' | '.join(heads)} |", f"|---|---| {' | '.join('---' for _ in heads)} |"]
    for (title, data), costs in found.items():
        flops, times = dict(costs[0].flops), [dict(milliseconds(cost)) for cost in costs]
        ratios = {n: fmean(each[n] / each[0] for each in times) for n in flops}
        texts = [str(min(cost.batch_size for cost in costs))]
        texts.append(f"{big(flops[0])}, {fmean(each[0] for each in times):.2f} ms")
        texts += [f"{big(flops[n])}, {ratios[n]:.2f}×" if n in flops else NONE for n in views]
        lines.append(f"| {_cell(title)} | {_cell(data)} | {' | '.join(texts)} |")
    return "\n".join(lines) + "\n"


def in_words(changes: dict) -> str:
    """The changes of a try in one line.

    >>> in_words({"recipe": {"rate": 0.001}, "views": 4})
    'recipe.rate 0.001, views 4'
    """

    def parts(prefix: str, value: object) -> Iterable[str]:
        if isinstance(value, dict) and value:
            for key, inner in value.items():
                yield from parts(f"{prefix}.{key}" if prefix else str(key), inner)
        else:
            yield f"{prefix} {value}"

    return ", ".join(parts("", changes)) if changes else "as it is"


def _cell(text: str) -> str:
    return html.escape(text, quote=False).replace("|", "\\|").replace("\n", " ")


def _tex(text: str) -> str:
    """Text with what LaTeX reads as commands written out."""
    for sign, written in (
        ("\\", r"\textbackslash "), ("&", r"\&"), ("%", r"\%"), ("_", r"\_"), ("#", r"\#"), ("$", r"\$"),
        ("{", r"\{"), ("}", r"\}"), ("±", r"$\pm$"), ("−", "$-$"), ("–", "--"), ("…", r"\dots "), ("\u202f", r"\,"),
        ("°", r"$^\circ$"), ("×", r"$\times$"), ("→", r"$\to$"), ("·", r"$\cdot$"), ("~", r"\textasciitilde "),
    ):  # fmt: skip
        text = text.replace(sign, written)
    return text
