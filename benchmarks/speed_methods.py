"""Of the page on speed: what every method gets right over the orbit, on one classifier, and what an image costs."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator
from results_page import COSTS_AS, table
from results_page import read as read_results
from speed_found import FOUND, Found, about, not_yet, read

DIGITS = "digits"  # the experiment
PEER = "equiadapt, 16 rotations"
OURS = ("tokenstn", "tokenstn-six")
# share a label in the figure
CROWD = ("stn", "head-stn", "diffeo-stn", "diffeo-stn-skew", "polar", "logpolar", "canprior-g", "canprior-s")
LABEL_LEFT = ("tokenstn-gauss",)  # of its point, upon which that of P-STN lies on the other side
NOT_DRAWN = ("vanilla-averaged", "augmented-averaged")
Right = dict[str, tuple[str, float]]  # row → title and accuracy in percent over the orbit, the mean over its seeds


def methods() -> str:
    """Photos on a GPU, digits on a CPU."""
    picture = "![accuracy over the orbit against milliseconds an image, one point for each method](assets/speed.svg)"
    return "\n\n".join(["### Methods", picture, on_photos(), on_digits()])


def on_photos() -> str:
    """EU-Moths on a GPU."""
    found, accuracies = read("h200_methods"), right_over("moths-eu", "eu-moths", "roto-scale")
    other = read("h200_peer")
    assert found is not None and other is not None
    costs = {row: found["rows"][COSTS_AS[row]] for row in accuracies if row in COSTS_AS}
    peer = other["rows"]["equiadapt"]
    words = (
        "EU-Moths, fold 0, 16 rotations × 3 scales: right answers in percent, as among the [results](results.md), and "
        f"milliseconds an image at batch {found['batch']} in {found['precision']}, all in turns in one run, each photo "
        "at another angle. Ours with as many views as needed, and recorded, as bulk prediction does; the others and "
        "the classifier alone are launched kernel by kernel: ratios are uncertain by a tenth. Rows that share a "
        "network and its number of views share a cost; that of ours depends on the weights, that of the others does "
        "not. The package equiadapt was timed in another run, where the classifier took "
        f"{other['rows']['vanilla']['ms']:.3f} ms, and not trained."
    )
    command = (
        "python benchmarks/cost_of_methods.py moths-eu:vanilla,tokenstn,tokenstn-six,tta,its,stn,head-stn,pstn-gamma,"
        "polar,diffeo-stn,canprior-g,canprior-s,tokenstn-gauss --seconds 0.6"
    )
    return "\n\n".join([compared(accuracies, costs, [line(PEER, None, peer)]), words, about(found, command)])


def on_digits() -> str:
    """Digits on a CPU, with the outside peer."""
    found, peer, accuracies = read("cpu_digits"), read(f"{DIGITS}_peer"), right_over(DIGITS, "mnist-mini", "rotation")
    command = (
        f"tokenstn bench {DIGITS}; python benchmarks/equiadapt_peer.py {DIGITS} --steps 300 --batch_size 32; python "
        f"benchmarks/cost_of_methods.py {DIGITS}:{','.join(accuracies)} --out results/speed/cpu_digits.json"
    )
    if found is None or peer is None:
        return not_yet("methods on a CPU", command)
    seeds = list(peer["by_seed"].values())
    beside = line(PEER, fmean(one["orbit"] for one in seeds), found["rows"]["equiadapt"])
    shown = peer["steps"] * peer["batch_size"]
    each = fmean(one["trained_for"] for one in seeds) / shown
    words = (
        f"5,000 digits of MNIST and a small ViT, 16 rotations, {len(seeds)} seeds: right answers in percent, as among "
        "the [results](results.md#digits-every-method-on-two-cpu-cores), and milliseconds an image at batch "
        f"{found['batch']} in {found['precision']}, all in turns in one run, with the weights of the first seed. The "
        f"package equiadapt stands in front of the same frozen classifiers; its network was shown {shown:,} upright "
        f"digits and told that these are upright, which took {1000 * each:.0f} ms for each on one core, so that no "
        "longer training was tried. This classifier is smaller than most of what stands in front of it, so that little "
        "is cheap beside it."
    )
    return "\n\n".join([words, compared(accuracies, found["rows"], [beside]), about(found, command)])


def right_over(experiment: str, data: str, orbit: str) -> Right:
    """What every row that was run gets right."""
    results = read_results(FOUND.parent, experiment)
    if results is None:
        return {}
    means = {row: [cell.orbits[orbit].mean for cell in results.cells_of(row.name, data)] for row in results.rows}
    return {row.name: (row.title, 100 * fmean(each)) for row, each in means.items() if each}


def compared(accuracies: Right, costs: Found, more: list[tuple[float, tuple[str, ...]]]) -> str:
    """A table of titles, accuracies and costs, the best first."""
    lines = [line(*accuracies[row], costs[row]) for row in accuracies if row in costs]
    lines = sorted([*lines, *more], key=lambda one: -one[0])
    return table(("method", "orbit, %", "ms an image", "× bare"), [cells for _, cells in lines])


def line(title: str, right: float | None, cost: Found) -> tuple[float, tuple[str, ...]]:
    """What a line is sorted by, and its cells."""
    accuracy = "–" if right is None else f"{right:.1f}"
    return right or 0.0, (title, accuracy, f"{cost['ms']:.3f}", f"{cost['ratio']:.2f}×")


def draw(path: Path) -> None:
    """The figure: accuracy over the orbit against milliseconds an image, one point for each method."""
    from matplotlib import pyplot as plt

    plt.rcParams["svg.hashsalt"] = "speed"
    photos, digits, peer = read("h200_methods"), read("cpu_digits"), read(f"{DIGITS}_peer")
    assert photos is not None and digits is not None and peer is not None
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.6), layout="constrained")
    accuracies = right_over("moths-eu", "eu-moths", "roto-scale")
    costs = {row: photos["rows"][shared] for row, shared in COSTS_AS.items()}
    panel(left, "EU-Moths, 16 rotations × 3 scales", accuracies, costs, photos, lowest=80)
    accuracies = right_over(DIGITS, "mnist-mini", "rotation")
    accuracies["equiadapt"] = (PEER, fmean(one["orbit"] for one in peer["by_seed"].values()))
    panel(right, "Digits, 16 rotations", accuracies, digits["rows"], digits, lowest=80)
    figure.savefig(path, metadata={"Date": None})


def panel(axes: Axes, title: str, accuracies: Right, costs: Found, found: Found, lowest: float) -> None:
    """One data set; what is below ``lowest`` percent stands at the edge."""
    crowd = []
    for row, (name, right) in accuracies.items():
        if row not in costs or row in NOT_DRAWN:
            continue
        place, ours = (costs[row]["ms"], max(right, lowest)), row in OURS
        axes.plot(*place, "o" if ours else "s", color="tab:red" if ours else "tab:gray", markersize=5)
        if row in CROWD:
            crowd.append(place)
        else:
            low = right < lowest  # at the edge, where labels would stand in each other's way
            words, turned = (f"{name} ({right:.0f} %)", 30) if low else (name, 0)
            left = row in LABEL_LEFT
            beside, side = ((4, 4) if low else (-6 if left else 6, -3)), "right" if left else "left"
            axes.annotate(words, place, textcoords="offset points", xytext=beside, fontsize=7, rotation=turned, ha=side)
    below = (min(ms for ms, _ in crowd), min(right for _, right in crowd))
    words = "STN, Head-STN, Diffeo-STN,\nPolar, LogPolar, CanPrior"
    axes.annotate(words, below, textcoords="offset points", xytext=(0, -22), fontsize=7)
    axes.set(
        title=title, xscale="log", ylabel="right, %",
        xlabel=f"ms an image ({found['precision']}, batch {found['batch']}, {found['device']})",
    )  # fmt: skip
    axes.margins(x=0.12)
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")
