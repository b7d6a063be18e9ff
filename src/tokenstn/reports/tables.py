"""The tables of the page: an evaluation's numbers as text, row by row.

A cell is a text, or a text with a smaller one below it. The first column names the row.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np

from tokenstn.evaluation.results import Discrimination, Evaluation
from tokenstn.reports.classes import most_flips, rate, row_names
from tokenstn.reports.numbers import (
    THIN,
    bare_points,
    big,
    count,
    decimal,
    decimal_interval,
    duration,
    measure,
    percent,
    percent_interval,
)
from tokenstn.reports.plot import answerers, printable
from tokenstn.reports.trust import BARE_CONFIDENCE, uncertainty_title
from tokenstn.reports.words import worst_place

MOST_ROWS = 100
KEPT = (1.0, 0.95, 0.9, 0.8, 0.7, 0.5)
Cell = str | tuple[str, str]


@dataclass(frozen=True)
class Table:
    """``warned``: numbers of the rows that need attention. ``note``: a sentence below."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    warned: frozenset[int] = frozenset()
    note: str = ""


def before_after(evaluation: Evaluation) -> Table:
    """Accuracy and agreement, bare and rectified and the change."""
    both = [who.scores for who in answerers(evaluation)]
    rows: list[tuple[Cell, ...]] = []

    def add(name: Cell, values: list[float | None], below: list[str] | None = None) -> None:
        cells = [(percent(v), b) for v, b in zip(values, below or [""] * len(values), strict=True)]
        first, last = values[0], values[-1]
        change = [bare_points(last - first)] if len(values) > 1 and first is not None and last is not None else []
        rows.append((name, *cells, *(change or [""] * (len(values) - 1))))

    if evaluation.bare.mean is not None:
        add(evaluation.as_they_come.capitalize(), [scores.upright for scores in both])
        intervals = [percent_interval(scores.mean_ci) if scores.mean_ci else "" for scores in both]
        add(("Mean over the orbit", f"with its 95{THIN}% interval"), [scores.mean for scores in both], intervals)
        where = [f"at {place}" if (place := worst_place(evaluation, scores)) else "" for scores in both]
        add("Worst pose", [scores.worst for scores in both], where)
        add("Best pose", [scores.best for scores in both])
    add(("Agreement with itself", "moved copies, same answer"), [scores.consistency for scores in both])
    if evaluation.bare.mean is None:
        add(f"Mean confidence {evaluation.as_they_come}", [scores.confidence_by_element[0] for scores in both])
        means = [sum(scores.confidence_by_element) / len(scores.confidence_by_element) for scores in both]
        add("Mean confidence over the orbit", [*means])
    columns = ("", *(who.title for who in answerers(evaluation)), *(("points",) if len(both) > 1 else ()))
    note = "Accuracy is the share of labels that are right at a probability of ½." if evaluation.multi_label else ""
    return Table(
        "Accuracy and agreement" if evaluation.bare.mean is not None else "Agreement and confidence",
        columns,
        tuple(rows),
        note=note,
    )


def discrimination(evaluation: Evaluation) -> Table | None:
    """AUC, F1, sensitivity and specificity, as the images come and over the orbit."""
    found: list[tuple[str, str, Discrimination]] = []
    for who in answerers(evaluation):
        for where, scores in (
            (evaluation.as_they_come, who.scores.discrimination_upright),
            ("over the orbit", who.scores.discrimination_orbit),
        ):
            if scores is not None:
                found.append((who.title, where, scores))
    if not found:
        return None
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        ((title, where), decimal(s.auc), decimal(s.f1), percent(s.sensitivity), percent(s.specificity))
        for title, where, s in found
    )
    threshold = found[0][2].threshold
    at = "at the most probable class" if threshold is None else f"at a probability above {threshold:.3g}"
    whose = f"those of “{printable(evaluation.classes[1])}”" if _two(evaluation) else "means over the classes"
    columns = ("", "AUC", "F1", "sensitivity", "specificity")
    return Table("Beyond accuracy", columns, rows, note=f"Sensitivity and specificity {at}. All values are {whose}.")


def flips(evaluation: Evaluation) -> Table | None:
    """Per class with counts, most flips first."""
    if evaluation.flips is None:
        return None
    by_class = evaluation.flips.by_class
    names = row_names(evaluation, len(by_class))
    ranked = most_flips(by_class)[:MOST_ROWS]
    rows: list[tuple[Cell, ...]] = []
    for name, f in [("All", evaluation.flips.overall), *((printable(names[k]), by_class[k]) for k in ranked)]:
        fixed, broken = rate(f.fixed, f.base_wrong), rate(f.broken, f.base_right)
        rows.append(
            (name, count(f.fixed), count(f.base_wrong), percent(fixed), count(f.broken), count(f.base_right),
             percent(broken))
        )  # fmt: skip
    columns = ("class", "fixed", "of wrong", "rate", "broken", "of right", "rate")
    many = len(by_class) > MOST_ROWS
    note = (
        f"The {MOST_ROWS} of {count(len(by_class))} classes with most flips; the figure's data hold all."
        if many
        else ""
    )
    return Table("Flips, in answers over the orbit", columns, tuple(rows), note=note)


def calibration(evaluation: Evaluation) -> Table | None:
    found = [(who.title, who.scores.calibration) for who in answerers(evaluation)]
    if any(scores is None for _, scores in found):
        return None
    kept = [(title, scores) for title, scores in found if scores is not None]
    rows: tuple[tuple[Cell, ...], ...] = (
        (("ECE", "confidence against accuracy"), *(percent(scores.ece) for _, scores in kept)),
        (("NLL", "nats"), *(decimal(scores.nll) for _, scores in kept)),
        (("Brier", "summed over the classes"), *(decimal(scores.brier) for _, scores in kept)),
    )
    return Table("Calibration over the orbit", ("lower is better", *(title for title, _ in kept)), rows)


def uncertainty(evaluation: Evaluation) -> Table | None:
    """AUROC and AURC of each, the lowest area first."""
    if not evaluation.uncertainty:
        return None
    ranked = sorted(evaluation.uncertainty.items(), key=lambda item: item[1].aurc.value)
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            uncertainty_title(name),
            decimal_interval(score.class_auroc),
            decimal_interval(score.pose_auroc),
            decimal_interval(score.aurc),
            decimal(score.excess_aurc),
        )
        for name, score in ranked
    )
    columns = ("uncertainty", "AUROC, class errors", "AUROC, pose errors", "AURC", "excess AURC")
    note = (
        "AUROC: 1 tells every error, 0.5 is chance. AURC: mean risk over all coverages, lower is better; excess: above "
        "the best possible. A pose error is a pose that does not follow the turn by more than 30°. In brackets "
        f"95{THIN}% intervals."
    )
    if BARE_CONFIDENCE in evaluation.uncertainty and evaluation.rectified is not None:
        note += (
            f" “{uncertainty_title(BARE_CONFIDENCE)}” sorts the bare classifier's own answers by its confidence; all "
            "others sort the rectified ones."
        )
    return Table("How well each uncertainty tells errors", columns, rows, note=note)


def coverage(evaluation: Evaluation) -> Table | None:
    """Errors left when only the surest answers are kept: of the best uncertainty, and of the bare confidence."""
    known = {name: score for name, score in evaluation.uncertainty.items() if score.curve}
    if not known:
        return None
    best = min(known, key=lambda name: known[name].aurc.value)
    names = [best, *([BARE_CONFIDENCE] if BARE_CONFIDENCE in known and best != BARE_CONFIDENCE else [])]
    rows: list[tuple[Cell, ...]] = []
    for kept in KEPT:
        risks = [np.interp(kept, *np.array(known[name].curve).T) for name in names]
        rows.append(
            (f"the surest {100 * kept:.0f}{THIN}%" if kept < 1 else "all", *(percent(float(risk)) for risk in risks))
        )
    columns = ("answers kept", *(uncertainty_title(name) for name in names))
    return Table("Wrong among the answers that are kept", columns, tuple(rows))


def flags(evaluation: Evaluation) -> Table | None:
    """The two flags: how often they are raised, and how often answers fail with and without them."""
    if evaluation.flags is None:
        return None
    judged = {"class_uncertain": evaluation.flags.class_uncertain, "pose_ambiguous": evaluation.flags.pose_ambiguous}
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            (name, score.sentence),
            percent(score.raised),
            (percent(None if score.risk is None else score.risk.value), percent_interval(score.risk)),
            percent(score.risk_raised),
            percent(score.target_risk),
        )
        for name, score in judged.items()
        if score is not None
    )
    columns = ("flag", "raised", "failures without it", "failures with it", "promised at most")
    return Table("The two flags of this model", columns, rows)


def poses(evaluation: Evaluation) -> Table | None:
    if not evaluation.pose:
        return None
    known = any(found.error is not None for found in evaluation.pose.values())
    rows: list[tuple[Cell, ...]] = []
    for name, p in evaluation.pose.items():
        error: tuple[Cell, ...] = ((measure(p.error, p.unit), _far(p.failures)),) if known else ()
        rows.append((
            (name, p.sentence),
            *error,
            (measure(p.equivariance_error, p.unit), _far(p.equivariance_failures)),
            measure(p.spread_of_poses, p.unit),
            percent(p.share_at_bound),
        ))  # fmt: skip
    columns = (
        "primitive",
        *(("median error",) if known else ()),
        "equivariance error",
        "spread of poses",
        "at its bound",
    )
    collapsed = frozenset(k for k, p in enumerate(evaluation.pose.values()) if p.collapsed)
    note = (
        "Equivariance error: median distance between the pose of a moved image and the moved pose of the same image as "
        "it comes. Far off: more than 30°, or a factor of 1.1. At its bound: predictions within "
        f"1{THIN}% of the range's ends."
    )
    return Table("How well poses are found", columns, tuple(rows), collapsed, note)


def controls(evaluation: Evaluation) -> Table | None:
    if not evaluation.controls:
        return None
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            (control.name, control.sentence),
            percent(control.bare_accuracy),
            percent(control.reference),
            percent(control.accuracy),
            bare_points(control.accuracy - control.reference),
        )
        for control in evaluation.controls
    )
    warned = frozenset(k for k, control in enumerate(evaluation.controls) if control.warns)
    columns = ("circumstances", "bare there", "ordinary", "there", "points apart")
    return Table("The same rotations under other circumstances", columns, rows, warned)


def cost(evaluation: Evaluation) -> Table:
    found = evaluation.cost
    rows: list[tuple[Cell, ...]] = [
        ("Parameters", big(found.parameters)),
    ]
    if found.localizer_parameters:
        share = found.localizer_parameters / found.parameters if found.parameters else None
        rows.append(("of them in the localizer", (big(found.localizer_parameters), percent(share))))
    if found.auto_views is not None:
        rows.append(("Views used on average with “auto”", decimal(found.auto_views, 1)))
    flops, throughput = dict(found.flops), dict(found.throughput)
    if 0 in flops:
        rows.append(("FLOPs per image, bare", big(flops[0])))
    if 0 in throughput:
        rows.append(("Images per second, bare", big(throughput[0])))
    if found.peak_memory_mb is not None:
        bare = f"bare {found.bare_peak_memory_mb:,.0f} MB" if found.bare_peak_memory_mb is not None else ""
        rows.append(("Peak memory of a batch", (f"{found.peak_memory_mb:,.0f} MB", bare)))
    return Table("What it takes", ("", f"on {found.device}"), tuple(rows))


def provenance(evaluation: Evaluation) -> Table:
    source = evaluation.provenance
    rows: list[tuple[Cell, ...]] = [
        ("Model", printable(evaluation.model)),
        ("Data", (printable(evaluation.data), f"{evaluation.split} split, {count(evaluation.images)} images")),
        ("Data checksum (SHA-256)", source.data_sha256),
        ("Group", (evaluation.group, f"{count(len(evaluation.elements))} elements")),
        ("Views", evaluation.views),
        ("Seed", str(source.seed)),
        ("Made", (source.created, f"in {duration(source.seconds)} on {source.device}")),
        ("Versions", " · ".join(f"{name} {version}" for name, version in source.versions.items())),
        *((name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))
          for name, value in source.settings.items()),
        ("Schema", evaluation.schema),
    ]  # fmt: skip
    return Table("Settings and versions", ("", ""), tuple(rows))


def _two(evaluation: Evaluation) -> bool:
    return len(evaluation.classes) == 2 and not evaluation.multi_label


def _far(failures: float | None) -> str:
    return "" if failures is None else f"{percent(failures)} far off"
