"""Evaluations as they could come out of a run, made up from a seed: the kinds of page that a report has to make."""

import math
from dataclasses import replace

import numpy as np

from tokenstn.evaluation.results import (
    SCHEMA,
    Calibration,
    ClassEntropy,
    ClassFlips,
    Control,
    Cost,
    Discrimination,
    Element,
    EntropyGroup,
    Evaluation,
    Example,
    Flips,
    Interval,
    PoseScores,
    Provenance,
    ReliabilityBin,
    Scores,
    UncertaintyScore,
)

NASTY = "<script>alert(1)</script>"
MOTHS = (
    "Smerinthus ocellata", "Deilephila elpenor", "Macroglossum stellatarum", "Arctia caja", "Saturnia pavonia",
    "Zygaena filipendulae", "Noctua pronuba", "Catocala nupta", "Xanthorhoe fluctuata", "Biston betularia",
)  # fmt: skip
NASTY_CLASSES = (
    NASTY,
    "naïve & “quoted”",
    "蛾 🦋",
    "$x^{2$",
    'a" onload="alert(2)',
    "\x00\x1bcontrol",
    "=1+1",
    "]]>--><b>",
)


def rotoscale(order: int = 16, sizes: tuple[float, ...] = (1.0, 0.875, 0.75)) -> tuple[Element, ...]:
    return tuple(Element(rotation_deg=360 * k / order, scale=size) for size in sizes for k in range(order))


def curve(elements, upright: float, depth: float, seed: int) -> tuple[float, ...]:
    """Falls off with the turn and with the size, with a little noise."""
    noise = np.random.default_rng(seed).normal(0, 0.012, len(elements))
    falls = [depth * (1 - np.cos(np.radians(e.rotation_deg))) / 2 + 0.25 * depth * (1 - e.scale) for e in elements]
    shares = np.clip(upright - np.array(falls) + noise, 0, 1)
    shares[0] = upright
    return tuple(shares.tolist())


def scores(elements, upright: float, depth: float, classes: int, seed: int, labelled: bool = True) -> Scores:
    rng = np.random.default_rng(seed + 100)
    by_element = curve(elements, upright, depth, seed)
    agreement = tuple(np.clip(np.array(by_element) + 0.05, 0, 1).tolist())
    mean = float(np.mean(by_element))
    quantiles = np.sort(np.clip(rng.beta(6 * mean, 6 * (1 - mean), 21), 0, 1)).round(3)
    bins = []
    for k in range(10):
        count = int(40 * (k + 1) ** 2 * rng.uniform(0.8, 1.2)) if k else 0
        middle = (k + rng.uniform(0.3, 0.7)) / 10
        bins.append(ReliabilityBin(k / 10, (k + 1) / 10, count, middle, float(np.clip(middle - depth * 0.3, 0, 1))))
    found = Discrimination(
        auc=upright + 0.05, f1=upright - 0.02, sensitivity=upright - 0.013, specificity=0.987, threshold=None
    )
    by_class = tuple(np.clip(rng.normal(mean, 0.12, classes), 0.02, 1).tolist())
    return Scores(
        upright=upright if labelled else None,
        mean=mean if labelled else None,
        mean_ci=Interval(mean, mean - 0.013, mean + 0.012) if labelled else None,
        worst=min(by_element) if labelled else None,
        best=max(by_element) if labelled else None,
        by_element=by_element if labelled else None,
        confidence_by_element=tuple(np.clip(np.array(by_element) * 0.8 + 0.15, 0, 1).tolist()),
        consistency=float(np.mean(agreement[1:])) if len(agreement) > 1 else 1.0,
        consistency_by_element=agreement,
        consistency_by_image=tuple(quantiles.tolist()),
        by_class=by_class if labelled else None,
        discrimination_upright=found if labelled else None,
        discrimination_orbit=replace(found, auc=mean + 0.04, f1=mean - 0.02) if labelled else None,
        calibration=Calibration(0.0837 + depth / 10, 1.2345 * depth + 0.3, 0.21 + depth, tuple(bins))
        if labelled
        else None,
    )


def flips(classes: int, seed: int = 3) -> Flips:
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(classes):
        wrong, right = int(rng.integers(20, 900)), int(rng.integers(300, 1500))
        rows.append(ClassFlips(int(wrong * rng.beta(6, 2)), wrong, int(right * rng.beta(1, 30)), right))
    total = ClassFlips(
        *(sum(getattr(row, key) for row in rows) for key in ("fixed", "base_wrong", "broken", "base_right"))
    )
    return Flips(total, tuple(rows))


def entropies(by_class: tuple[ClassFlips, ...], level: float, seed: int = 4) -> tuple[ClassEntropy, ...]:
    rng = np.random.default_rng(seed)
    rows = []
    for found in by_class:
        sample, groups = [], {}
        for what, count, mean in (
            ("fixed", found.fixed, level),
            ("broken", found.broken, 2.2 * level),
            ("unchanged", 300, 0.8 * level),
        ):
            values = np.clip(rng.gamma(4, mean / 4, max(count, 1)), 0, 1)
            if count:
                groups[what] = EntropyGroup(float(values.mean()), float(values.std()), count)
                sample += [(float(v), what) for v in values[: 200 * count // (found.fixed + found.broken + 300)]]
            else:
                groups[what] = EntropyGroup(None, None, 0)
        rows.append(ClassEntropy(**groups, sample=tuple(sample)))
    return tuple(rows)


def uncertainties(names: tuple[str, ...], error: float, pose: bool) -> dict[str, UncertaintyScore]:
    found = {}
    for k, name in enumerate(names):
        coverage = np.linspace(0.01, 1, 101)
        risk = error * coverage ** (2.6 - 0.3 * k)
        auroc = 0.93 - 0.05 * k
        area = float(risk.mean())
        found[name] = UncertaintyScore(
            class_auroc=Interval(auroc, auroc - 0.011, auroc + 0.0105),
            pose_auroc=Interval(0.87 - 0.03 * k, 0.85 - 0.03 * k, 0.89 - 0.03 * k)
            if pose and name != "bare_confidence"
            else None,
            aurc=Interval(area, area - 0.004, area + 0.004),
            excess_aurc=area / 2,
            curve=tuple(zip(coverage.tolist(), risk.tolist(), strict=True)),
        )
    return found


def provenance(command: str) -> Provenance:
    return Provenance(
        command=command,
        created="2025-03-14 09:26 UTC",
        seconds=754.2,
        device="NVIDIA H200",
        versions={"tokenstn": "0.1.0", "torch": "2.15.0", "timm": "1.0.29", "python": "3.11.7"},
        seed=0,
        data_sha256="9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        settings={"order": 16, "scales": 3, "padding": "reflection", "interpolation": "bilinear", "limit": None},
    )


def rectified(classes: tuple[str, ...] = MOTHS, poses: str = "absolute", **changes) -> Evaluation:
    """A labelled roto-scale evaluation of a rectified classifier, with one control that warns."""
    elements = rotoscale()
    flipped = flips(len(classes))
    names = ("combined", "confidence", "predictive_entropy", "disagreement")
    names += ("bare_confidence_for_rectified", "bare_confidence", "entropy_scale", "entropy_rotation")
    alive = PoseScores("°", 4.42, 0.031, 3.71, 0.024, 98.6, 0.012, False, "rotation is alive")
    stuck = PoseScores(
        "%",
        None,
        None,
        9.3,
        0.41,
        0.4,
        0.62,
        True,
        "scale has collapsed: 62% of the predictions are at the end of its range",
    )
    found = Evaluation(
        schema=SCHEMA,
        model="runs/moths/model",
        data="eu-moths",
        split="test",
        images=2_205,
        classes=classes,
        multi_label=False,
        group="rotoscale",
        elements=elements,
        views="auto",
        poses=poses,
        bare=scores(elements, 0.8752, 0.52, len(classes), 1),
        rectified=scores(elements, 0.9043, 0.02, len(classes), 2),
        flips=flipped,
        pose={"rotation": alive if poses == "absolute" else replace(alive, error=None, failures=None), "scale": stuck},
        entropy={"rotation": entropies(flipped.by_class, 0.16), "scale": entropies(flipped.by_class, 0.3, 5)},
        uncertainty=uncertainties(names, 0.11, pose=True),
        controls=(
            Control("exact quarter turns", 0.8931, 0.8957, 0.641, False, "no pixel is resampled"),
            Control("circular mask", 0.8712, 0.8957, 0.602, True, "the corners are hidden; 2.5 points apart"),
            Control("zero padding, nearest", 0.8921, 0.8957, 0.611, False, "neither was so in training"),
        ),
        cost=Cost(
            parameters=87_412_345,
            trainable_parameters=941_000,
            localizer_parameters=941_000,
            flops=((0, 17.6e9), (1, 22.9e9), (4, 75.1e9), (8, 144.6e9)),
            throughput=((0, 1412.0), (1, 1086.0), (4, 331.0), (8, 171.0)),
            batch_size=64,
            peak_memory_mb=1834.0,
            bare_peak_memory_mb=911.0,
            auto_views=3.6,
            device="NVIDIA H200",
        ),
        provenance=provenance("tokenstn evaluate runs/moths --data eu-moths --group rotoscale --order 16 --scales 3"),
        warnings=("The control “circular mask” is 2.5 points apart.", stuck.sentence),
    )
    return replace(found, **changes)


def bare(
    classes: tuple[str, ...] = ("cat", "dog"),
    upright: float = 0.942,
    depth: float = 0.5,
    labelled: bool = True,
    **changes,
) -> Evaluation:
    """A diagnosis: no rectifier, rotations only."""
    elements = tuple(Element(rotation_deg=22.5 * k) for k in range(16))
    found = replace(
        rectified(classes),
        model="resnet50",
        data="my photos/",
        images=1_000,
        group="rotation",
        elements=elements,
        views="1",
        bare=scores(elements, upright, depth, len(classes), 7, labelled),
        rectified=None,
        flips=None,
        pose={},
        entropy={},
        uncertainty=uncertainties(("bare_confidence",), 0.3, pose=False) if labelled else {},
        controls=(),
        cost=Cost(25_557_032, 0, 0, ((0, 8.2e9),), ((0, 212.0),), 32, None, None, None, "CPU, 2 threads"),
        provenance=provenance("tokenstn diagnose resnet50 'my photos/'"),
        warnings=(),
    )
    return replace(found, **changes)


def unlabelled() -> Evaluation:
    """A rectified classifier on images whose classes nobody told."""
    elements = rotoscale(8, (1.0, 0.75))
    found = rectified()
    return replace(
        found,
        elements=elements,
        bare=scores(elements, 0.88, 0.52, 10, 1, labelled=False),
        rectified=scores(elements, 0.9, 0.03, 10, 2, labelled=False),
        flips=None,
        entropy={},
        uncertainty={},
        controls=(),
        warnings=(),
    )


def multi_label() -> Evaluation:
    labels = ("atelectasis", "cardiomegaly", "effusion", "infiltration", "mass", "nodule", "pneumonia")
    found = rectified(labels, multi_label=True, data="chestmnist", warnings=())
    assert found.bare.discrimination_upright is not None
    at_half = replace(found.bare.discrimination_upright, threshold=0.5)
    return replace(found, bare=replace(found.bare, discrimination_upright=at_half))


def thousand() -> Evaluation:
    return rectified(tuple(f"n{10_000_000 + k} synset number {k}" for k in range(1000)), data="imagenet", images=50_000)


def nasty() -> Evaluation:
    command = f"tokenstn evaluate '{NASTY}' --data x"
    return rectified(
        NASTY_CLASSES, model=NASTY, data=f"photos/{NASTY}", provenance=provenance(command), warnings=(NASTY,)
    )  # fmt: skip


def photo(turn: float, side: int, seed: int) -> np.ndarray:
    """A bright arrow on a dark ground, turned clockwise by this many degrees: uint8 (side, side, 3)."""
    y, x = np.mgrid[-1 : 1 : side * 1j, -1 : 1 : side * 1j]
    angle = np.radians(turn)
    across, down = x * np.cos(angle) + y * np.sin(angle), -x * np.sin(angle) + y * np.cos(angle)
    shape = ((np.abs(across) < 0.14) & (np.abs(down) < 0.6)) | ((down < -0.1) & (np.abs(across) < 0.7 + down))
    shade = np.random.default_rng(seed).uniform(0.2, 1, 3)
    ground = 0.25 + 0.12 * np.sin(5 * x + seed)
    return (255 * np.clip(np.where(shape[..., None], shade, ground[..., None]), 0, 1)).astype(np.uint8)


def examples(evaluation: Evaluation, each: int = 4) -> list[Example]:
    rng = np.random.default_rng(8)
    made = []
    for kind in ("fixed", "broken", "ambiguous"):
        for k in range(each):
            turn = float(rng.uniform(-180, 180))
            label, other = (evaluation.classes[int(n)] for n in rng.choice(len(evaluation.classes), 2, replace=False))
            side = 28 if k % 3 == 2 else 224
            spread = 48.0 if kind == "ambiguous" else 3.0 + k
            made.append(
                Example(
                    kind=kind,
                    name=f"test/{label}/IMG_{1000 + k}.jpg",
                    image=photo(turn, side, k),
                    rectified=photo(0.0, side, k),
                    label=label,
                    bare=label if kind == "broken" else other,
                    bare_confidence=0.4137 + 0.1 * k,
                    answer=other if kind == "broken" else label,
                    confidence=0.8764 - 0.05 * k,
                    rotation_deg=turn,
                    spread_deg=spread,
                    scale=0.81 if k % 2 else None,
                    entropy={"rotation": 0.62 if kind == "ambiguous" else 0.08, "scale": 0.2},
                )
            )
    return made


def sparse() -> Evaluation:
    """One pose only, a class without images, nothing in any bin: what was not measured is nan, None or empty."""
    elements = (Element(),)
    few = scores(elements, 0.9, 0.3, 3, 1)
    assert few.calibration is not None and few.by_class is not None
    gaps = replace(
        few,
        consistency=math.nan,
        consistency_by_image=(),
        by_class=(math.nan, *few.by_class[1:]),
        calibration=replace(few.calibration, bins=()),
    )
    silent = UncertaintyScore(None, None, Interval(0.1, math.nan, math.nan), 0.05, ())
    empty = EntropyGroup(None, None, 0)
    none = ClassFlips(0, 0, 0, 0)
    return rectified(
        ("a", "b", "c"),
        elements=elements,
        group="rotation",
        bare=gaps,
        rectified=gaps,
        flips=Flips(none, (none, none, none)),
        entropy={"rotation": (ClassEntropy(empty, empty, empty),) * 3},
        uncertainty={"combined": silent},
    )


ALL = {
    "sparse": sparse,
    "rectified": rectified,
    "relative": lambda: rectified(poses="relative", warnings=()),
    "bare": bare,
    "robust": lambda: bare(upright=0.97, depth=0.005),
    "bare_unlabelled": lambda: bare(labelled=False, classes=()),
    "unlabelled": unlabelled,
    "multi_label": multi_label,
    "thousand": thousand,
    "nasty": nasty,
}
