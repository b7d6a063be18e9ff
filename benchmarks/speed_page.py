"""The page on speed, from what the benchmarks have written to results/speed/.

    python benchmarks/speed_page.py            # docs/speed.md and its figure
    python benchmarks/speed_page.py --check    # is the page what they give? nothing is written

What has not been measured is a line with the command that would, never a guess.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import fmean
from typing import Any

from results_page import read as read_results
from results_page import table
from speed_found import FOUND, RECORDED, Found, about, not_yet, read
from speed_methods import draw, methods

from tokenstn.evaluation.bench_results import BenchResults

PAGE = Path(__file__).parents[1] / "docs" / "speed.md"
OTHER_RUNS = "¹"  # beside figures that are not all of one run

HEAD = """# Speed

<!-- written by benchmarks/speed_page.py from results/speed/: change these -->

One view costs one forward pass of the classifier and a little more; by default there are as many views as an image
needs, which on photos costs two to three passes. On this page: how much it is, for one view and for several, for
training and for evaluation; and which accuracy it buys. All times are medians, both sides measured in turns in one run;
ratios carry over to other machines better than milliseconds do.
"""
FLOORS = """## Where the time goes

One view of a ViT-B/16 at 224 pixels is, counted in operations, 1.045 of the bare classifier: the image at 0.36 of the
resolution (25 tokens instead of 196) through 4 of 12 layers is 4.4 % of it, the localizer 0.1 %. Counted in bytes it is
less: an image is read twice more and written once, 0.9 MB in bfloat16, 0.3 % of the time that the classifier takes.
What is measured above these floors is the smallness of the work. Of a recorded rectifier, on an H200 at batch 64, the
profiler counted 0.74 ms in front of the classifier's 6.2: resizing, patches and positions 0.06, the four shared layers
0.39 in kernels of 2 to 16 µs that fill the GPU for a part of their time, the localizer 0.15, the warp 0.04, and 0.09
from the numbers of the heads to a matrix, in some forty kernels of a microsecond or two, which are fewer since.

Launched one by one, these kernels take a host longer than the GPU: `model.record()` launches them as one CUDA graph,
and bulk prediction does so by itself. The patch embedding of the localizer is a matrix product instead of a
convolution, which took a fifth of the whole at batch 256. Training plays networks back as CUDA graphs, too: of a
rectifier's step, reading the pose takes 2.0 instead of 8.0 ms, forward and back (ViT-S/16, batch 128). Images of sets
of moderate size are decoded once and stay on the device.
"""
# experiments, and where they stand on the page on results
SMALL_IMAGES, SMALL_ANCHOR = "mnist-localizer", "mnist-what-a-localizer-reads-of-a-small-image"
CLOSER = "moths-closer"
CLOSER_ANCHOR = "eu-moths-shortcuts-of-the-localizer-and-closer-readings-validation-fold"


def render() -> str:
    """The page."""
    first = [HEAD.strip(), one_view(), readings(), FLOORS.strip(), kernel()]
    rest = (several_views, growth, accuracy, training, orbits, imports)
    return "\n\n".join([*first, *(part() for part in rest)]) + "\n"


def one_view() -> str:
    """Beside the bare classifier, on every machine that there is."""
    rows, below = [], []
    for name, command in (
        ("h200", "python benchmarks/speed.py --device cuda --models vit_base_patch16_224 swin_base_patch4_window7_224 "
                 "--batches 64 256 --views 1"),
        ("h200_compiled", "python benchmarks/speed.py --device cuda --models vit_base_patch16_224 "
                          "swin_base_patch4_window7_224 --batches 64 256 --compiled --mode reduce-overhead"),
        ("cpu", "python benchmarks/speed.py --device cpu --models vit_small_patch16_224 --batches 1 16 --views 1 4"),
        ("cpu_bfloat16", "python benchmarks/speed.py --device cpu --models vit_small_patch16_224 --batches 1 16 "
                         "--views 1 --dtype bfloat16"),
    ):  # fmt: skip
        found = read(name)
        if found is None:
            below.append(not_yet(f"one view on {name}", command))
            continue
        below.append(about(found, command))
        bare = {_call(row): row["ms"] for row in found["rows"] if row["way"] == "bare"}
        rows += [
            (row["model"], found["device"].split(" (")[0], found["dtype"], _how(row), row["batch"],
             f"{bare[_call(row)]:.2f}", f"{row['ms']:.2f}", f"**{row['ratio']:.3f}**", _alone(row))
            for row in found["rows"] if row["way"] in ("1 views", RECORDED)
        ]  # fmt: skip
    head = ("classifier", "on", "precision", "mode", "batch", "bare, ms", "one view, ms", "ratio", "alone")
    words = (
        "Ratio: calls that follow each other as in a loop over batches, on the H200 in eager mode up to 50, elsewhere "
        "three. Alone: the host waits after each call, so that all it does before the first kernel counts. Recorded: "
        "the rectifier is launched as one CUDA graph; the classifier, here and alone, kernel by kernel. Without that a "
        f"small batch waits for its host, and hosts differ: {_hosts()}. {OTHER_RUNS} Each row in a process of its own, "
        "alone on the GPU. The Swin that was compiled here warped by `grid_sample` and made its constants in every "
        "call; the ViT warped in one kernel and was given its constants, without which it was 1.137 at batch 64. This "
        "CPU has instructions for bfloat16, which `--precision bf16-mixed` of `train` and `predict` makes use of."
    )
    return "\n\n".join(["## One view", table(head, rows), words, *below])


def _hosts() -> str:
    """What the same call took where another host launched it."""
    found = read("h200_pose_kernels")
    assert found is not None
    took = {calls: ways["eager"] / ways["bare"] for calls, ways in found["by_calls"].items()}
    return (
        f"on another machine with an H200 the ViT at batch {found['batch']} took {took['20']:.2f} of the bare one in a "
        f"loop of 20, {took['3']:.2f} where three calls follow each other, {took['1']:.2f} alone"
    )


def _alone(row: Found) -> str:
    """Beside the bare classifier, where nothing follows."""
    ratio = row.get("alone_ratio")
    return "–" if ratio is None else f"{ratio:.3f}"


def readings() -> str:
    """What the localizer reads, against what that costs."""
    command = (
        "python benchmarks/speed.py --device cuda --models vit_base_patch16_224 --batches 64 256 --views 1 "
        "--readings 2,0.5,14 2,0.5,5 3,0.36,5 4,0.36,5 6,0.36,5"
    )
    title = "### What the localizer reads"
    found = read("h200_readings")
    if found is None:
        return f"{title}\n\n{not_yet('what the localizer reads', command)}"
    ways = dict.fromkeys(row["way"] for row in found["rows"] if row["way"].count(",") == 2)
    ratios = {(row["way"], row["batch"]): row["ratio"] for row in found["rows"]}
    batches = sorted({row["batch"] for row in found["rows"]})
    rows = [(*way.split(","), *(f"{ratios[way, batch]:.3f}" for batch in batches)) for way in ways]
    head = ("layers of a ViT-B/16", "share of the resolution", "tokens a side", *(f"ratio, batch {b}" for b in batches))
    words = (
        "All of them recorded, in turns, in one run before the one above. A third of the layers at 0.36 is what "
        "`tokenstn train` chooses; what each gives is among the "
        "[results](results.md#eu-moths-what-the-localizer-reads-validation-fold). Closer readings, of images whose "
        "angle is in doubt, come on top with `auto` alone."
    )
    return "\n\n".join([title, words, table(head, rows), about(found, command)])


def _call(row: Found) -> tuple[Any, ...]:
    return row["model"], row["compiled"], row["batch"]


def _how(row: Found) -> str:
    if row["compiled"]:
        return f"compiled, {row['compiled']} {OTHER_RUNS}"
    return "eager, recorded" if row["way"] == RECORDED else "eager"


def kernel() -> str:
    """What the hand-written kernels give."""
    found = read("h200_pose_kernels")
    assert found is not None
    ways, later = found["by_calls"], found["afterwards"]
    recorded = " and ".join(
        f"from {ways[calls]['recorded']:.2f} to {ways[calls]['recorded, with the kernels']:.2f} ms {words}"
        for calls, words in (("20", "in a loop of 20"), ("1", "alone"))
    )
    eager = f"from {ways['3']['eager']:.2f} to {later['3']['eager, with the kernels']:.2f} ms"
    return (
        "Three kernels are written by hand, for a GPU where no gradient is wanted. One does the whole warp: it finds "
        "the place of each pixel, reflects it and interpolates all channels, in float32 between half-precision images; "
        "half-precision grids would be wrong by up to 0.7 pixels. Two take the place of some thirty tiny ones between "
        f"the heads and the warp: the best angle of the ring, and the matrix of a pose. ViT-B/16, batch "
        f"{found['batch']}, in one run on one machine: recorded {recorded}; launched one by one {eager}, three calls "
        "in a row. What torch does in their place is their reference in the tests, and what runs elsewhere."
    )


def several_views() -> str:
    """Time and memory."""
    command = "python benchmarks/speed.py --device cuda --views 1 16"
    found = read("h200_views")
    title = "## Several views"
    if found is None:
        return f"{title}\n\n{not_yet('several views', command)}"
    every = {(*_call(row), row["way"]): row for row in found["rows"]}
    rows = []
    for (model, compiled, batch, way), row in every.items():
        if way == "16 views":
            one = every[model, compiled, batch, "1 views"]
            rows.append((model, batch, f"{row['ratio']:.1f}", f"{one['peak_mib']:.0f}", f"{row['peak_mib']:.0f}",
                         f"{row['peak_mib'] / one['peak_mib']:.2f}"))  # fmt: skip
    head = ("classifier", "batch", "time of 16 views, × bare", "memory of 1, MiB", "of 16, MiB", "ratio")
    words = (
        "Views go through the classifier one after the other: time grows with their number and memory does not. "
        '`views="auto"` looks at one view where that is sure of its answer, and packs the further views of all other '
        "images of a batch together. These are interpolated bicubically: on two CPU cores a ViT-S/16 takes 775 ms for "
        "16 images, warping them bilinearly 5.4 and bicubically 15.6, in turns in one run."
    )
    return "\n\n".join([title, words, table(head, rows), about(found, command)])


def growth() -> str:
    """With the size of the image, the batch and the views."""
    command = (
        "python benchmarks/speed.py --device cpu --models vit_small_patch16_224 vit_small_patch16_384 --batches 1 4 "
        "--views 1 2 4"
    )
    found, above = read("cpu_growth"), read("cpu")
    title = "### With the image, the batch and the views"
    if found is None or above is None:
        return f"{title}\n\n{not_yet('how cost grows', command)}"
    calls: dict[Any, dict[str, dict[str, Any]]] = {}
    for row in found["rows"]:
        calls.setdefault((row["model"], row["batch"]), {})[row["way"]] = row
    ways = [way for way in next(iter(calls.values())) if way != "bare"]
    rows = [
        (model, batch, f"{one['bare']['ms'] / batch:.0f}", *(f"{one[way]['ratio']:.2f}×" for way in ways))
        for (model, batch), one in calls.items()
    ]
    same = next(row["ratio"] for row in above["rows"] if (row["batch"], row["way"]) == (1, "1 views"))
    words = (
        "One view adds most to a small image alone, whose matrices are too small to fill a processor. A further view "
        "costs 0.9 to 1.3 times what the classifier costs, the more the larger the batch. Times on this machine vary: "
        f"one view of a small image at batch 1 cost {same:.2f}× in the run above."
    )
    head = ("classifier", "batch", "bare, ms an image", *(way.replace("1 views", "1 view") for way in ways))
    return "\n\n".join([title, words, table(head, rows), about(found, command)])


def accuracy() -> str:
    """Against cost: of views, of methods, and of shortcuts."""
    return "\n\n".join(["## Accuracy against cost", as_it_comes(), views(), methods(), shortcuts()])


def as_it_comes() -> str:
    """What the default of today gives and costs on photos: on the test fold, and on another beside ten views."""
    costs = {batch: read(name) for batch, name in ((256, "h200_methods_256"), (64, "h200_methods"))}
    results, closer, chosen = (
        read_results(FOUND.parent, "moths-eu"),
        read("h200_closer"),
        read_results(FOUND.parent, CLOSER),
    )
    assert results is not None and closer is not None and chosen is not None
    rows = []
    for row, title in (
        ("vanilla", "the classifier alone"),
        ("tokenstn", "`auto`, the default"),
        ("tokenstn-six", "`auto`, reading six layers of the whole photo"),
    ):
        ratios = (found["rows"][row]["ratio"] for found in costs.values() if found is not None)
        rows.append((title, *_right(results, row), *(f"{ratio:.2f}×" for ratio in ratios)))
    lines = []
    for row, title in (
        ("vanilla", "the classifier alone"),
        ("four-closer", "`auto`, the default"),
        ("four-closer-10", "the most probable 10"),
    ):
        ratios = (measured[row]["ratio"] for measured in closer["batches"].values())
        lines.append((title, *_right(chosen, row), *(f"{ratio:.2f}×" for ratio in ratios)))
    head = ("views", "upright, %", "orbit, %", "cost, batch 256", "cost, batch 64")
    words = (
        "A ViT-S/14 at 196 pixels, three seeds, in bfloat16. The cost is that of the recorded model beside the bare "
        "classifier, with the rectifier of the first seed, in turns in one run; at batch 64 a network of this size "
        "leaves the GPU waiting for the host. The test photos of EU-Moths, fold 0, 16 rotations × 3 scales ([all "
        "rows](results.md#eu-moths-vit-s14-at-196-pixels)):"
    )
    beside = (
        f"Beside ten views, on fold 1, 8 rotations × 3 scales ([all rows](results.md#{CLOSER_ANCHOR})), where the "
        "classifier knows fewer photos and is less sure, so that more of them are looked at again:"
    )
    test = (
        "tokenstn bench moths-eu; python benchmarks/cost_of_methods.py moths-eu:vanilla,tokenstn,tokenstn-six,… "
        "--batch 256 --seconds 0.6"
    )
    command = (
        f"tokenstn bench {CLOSER}; python benchmarks/cost_of_methods.py {CLOSER}:vanilla,four-closer,four-closer-10 "
        "--batch 256 --seconds 0.6"
    )
    large = costs[256]
    assert large is not None
    parts = (words, table(head, rows), about(large, test), beside, table(head, lines), about(closer, command))
    return "\n\n".join(["### As it comes", *parts])


def _right(results: BenchResults, row: str) -> tuple[str, str]:
    """Upright and over the orbit, the means over the seeds in percent."""
    orbits = [cell.orbits["roto-scale"] for cell in results.cells_of(row, "eu-moths")]
    return f"{100 * fmean(one.upright for one in orbits):.1f}", f"{100 * fmean(one.mean for one in orbits):.1f}"


def views() -> str:
    """One, several, and as many as needed."""
    large, right = read("h200_auto_256"), read("h200_auto_right")
    results = read_results(FOUND.parent, "moths-views")
    assert large is not None and right is not None and results is not None
    titles = {row.name: row.title for row in results.rows}
    rows = []
    for row, found in right["rows"].items():
        used = "–" if found["views"] is None else f"{found['views']:.1f}"
        cost = f"{large['rows'][row]['ratio']:.2f}×" if row in large["rows"] else "–"
        rows.append((titles[row], f"{found['upright']:.1f}", f"{found['orbit']:.1f}", used, cost))
    words = (
        "With the default before closer readings, whose rows tell more numbers of views apart. "
        f"{right['data']}, {right['orbit']}, as above. “As many as needed” is `auto`; it read four images in ten again "
        "at three quarter turns. The cost is that of the recorded model at batch "
        f"{large['batch']}, with the weights of the first seed, in turns in one run. Of the run that gave "
        "these accuracies their means were kept; [the table of all "
        "rows](results.md#eu-moths-how-far-apart-the-views-are-and-how-many-validation-fold) is of one before, when "
        "further views were bilinear."
    )
    head = ("views", "upright, %", "orbit, %", "views on average", f"cost, batch {large['batch']}")
    command = (
        "tokenstn bench moths-views; python benchmarks/cost_of_methods.py "
        "moths-views:vanilla,four,four-eight,four-1,four-2,four-4,four-10-views,six --batch 256 --seconds 0.6"
    )
    return "\n\n".join(["### How many views", words, table(head, rows), on_test_photos(), about(large, command)])


def on_test_photos() -> str:
    """The same on photos that nothing was chosen on."""
    results = read_results(FOUND.parent, "samples")
    assert results is not None

    def right(row: str) -> str:
        return f"{100 * fmean(cell.orbits['roto-scale'].mean for cell in results.cells_of(row, 'eu-moths')):.1f}"

    numbers = (1, 2, 4, 8, 16)
    probable, random = (", ".join(right(f"{line}-{count}") for count in numbers) for line in ("probable", "random"))
    return (
        "On the test photos, where nothing was chosen, as many as needed, further ones bilinear, are right on "
        f"{right('tokenstn')} %; the most "
        f"probable {', '.join(map(str, numbers))} on {probable}; as many drawn at random on {random} "
        "([results](results.md#accuracy-against-views))."
    )


def shortcuts() -> str:
    """What each one costs over the orbit, in points."""
    photos, digits = read("eu_moths_views"), read("mnist_shortcuts")
    ablation, views, small, closer = (
        read_results(FOUND.parent, name) for name in ("ablation", "moths-views", SMALL_IMAGES, CLOSER)
    )
    assert photos is not None and digits is not None and ablation is not None and views is not None
    assert closer is not None

    def instead_of(results: BenchResults | None, row: str, sign: int = -1) -> str:
        """The default beside a row; with a sign of 1, the row beside the default."""
        if results is None:
            return "–"
        one = next(c for c in results.comparisons if (c.row, c.orbit) == (row, results.orbits[0].name)).difference
        low, high = sorted((sign * one.low, sign * one.high))
        return f"{100 * sign * one.value:+z.1f} ({100 * low:+z.1f} … {100 * high:+z.1f})"

    def mean(row: str) -> float:
        return 100 * fmean(cell.orbits["roto-scale"].mean for cell in ablation.cells_of(row, "eu-moths"))

    def beside(found: Found, way: str, other: str) -> str:
        return f"{found['ways'][way]['orbit'] - found['ways'][other]['orbit']:+z.2f}"

    def apart(row: str, other: str) -> str:
        one, two = (
            fmean(cell.orbits["roto-scale"].mean for cell in closer.cells_of(r, "eu-moths")) for r in (row, other)
        )
        return f"{100 * (one - two):+z.1f}"

    pooled = f"{mean('half-resolution') - mean('all-tokens'):+z.1f}"
    rows = [
        (
            "0.36 of the image, and half where in doubt, instead of the whole one",
            instead_of(closer, "four-closer", 1),
            "–",
        ),
        ("0.36 of the image alone, instead of the whole one (not taken)", instead_of(closer, "four-small", 1), "–"),
        (
            "half of the image instead of the whole one",
            instead_of(closer, "four-half", 1),
            beside(digits, "half resolution", "auto"),
        ),
        ("4 layers instead of 6, of the whole image", instead_of(closer, "six-full"), "–"),
        ("3 layers instead of 4, else the default (not taken)", apart("three-closer", "four-closer"), "–"),
        (
            "2 layers instead of 4, the default before (on photos not taken)",
            instead_of(ablation, "shared-2", 1),
            instead_of(small, "layers-4"),
        ),
        ("5 × 5 tokens instead of 7 × 7, of an image of half", pooled, "–"),
        ("4 × 4 tokens instead of 7 × 7, of the whole image", "–", instead_of(small, "tokens-4", 1)),
        ("all of the default instead of 6 layers and the whole image", apart("four-closer", "six-full"), "–"),
        ("5 views at most instead of 8", instead_of(views, "four-eight"), "–"),
        ("bfloat16 instead of float32", *(beside(found, "auto", "auto, float32") for found in (photos, digits))),
    ]
    rows = [[cell.replace("-", "−") for cell in row] for row in rows]
    words = (
        "Points over the orbit. EU-Moths: three seeds, where there is an interval paired; on fold 1, but 2 layers and "
        f"pooled tokens, and the precision with one seed. {digits['data']}, {digits['orbit']}: one seed, the number of "
        f"layers and of tokens in [another experiment](results.md#{SMALL_ANCHOR}) with two, on a CPU. By default two "
        "layers read the whole of an image of up to 64 pixels, and a ViT's first third 0.36 of a larger one, half "
        f"where the angle is in doubt. To read the patches alone cost {-mean('tokenstn') + mean('shared-0'):+z.1f} on "
        "EU-Moths."
    ).replace(" -", " −")
    command = (
        f"tokenstn bench {CLOSER}; tokenstn bench ablation; tokenstn bench moths-views; tokenstn bench {SMALL_IMAGES}; "
        "python benchmarks/shortcuts.py mnist"
    )
    head = ("shortcut", "EU-Moths", "MNIST")
    return "\n\n".join(["### What shortcuts cost", words, table(head, rows), about(digits, command)])


def training() -> str:
    """A rectifier beside its classifier."""
    command = "python benchmarks/training_speed.py --accelerator gpu"
    found = read("h200_training")
    if found is None:
        return f"## Training\n\n{not_yet('training', command)}"
    rows = [
        (name, found[name]["epochs"], found[name]["steps"], f"{found[name]['ms_per_step']:.1f}",
         f"{found[name]['seconds']:.1f}", f"{found[name]['waiting']:.1%}")
        for name in ("classifier", "rectifier")
    ]  # fmt: skip
    head = ("", "epochs", "steps", "ms a step", "whole run, s", "waiting for images")
    words = (
        f"{found['model']}, {found['photos']:,} photos of 640×480 pixels, a fifth of them for validation, each with "
        f"the epochs that `tokenstn train` gives it: the rectifier takes **{found['ratio']:.2f}** of the time of "
        "fine-tuning its classifier. A small set gets 1,200 steps at least; on larger ones the share is smaller. Every "
        "other step reads half of the image's resolution, for images in doubt; when all read 0.36, a rectifier took "
        "0.39 of that time."
    )
    return "\n\n".join(["## Training", words, table(head, rows), about(found, command)])


def orbits() -> str:
    """Evaluation beside plain inference."""
    command = "python benchmarks/orbit_speed.py --photos 128"
    found = read("h200_orbit")
    if found is None:
        return f"## Evaluation over an orbit\n\n{not_yet('an orbit of 256 beside plain inference', command)}"
    memory = ", ".join(f"{order}: {mib:.0f} MiB" for order, mib in found["peak_mib_by_order"].items())
    words = (
        f"{found['model']}: {found['orbit_per_s']:,} images a second over an orbit of {found['order']}, warps and "
        f"judging included, and {found['plain_per_s']:,} in plain inference: **{found['ratio']:.2f}**. Peak memory by "
        f"order: {memory}."
    )
    return "\n\n".join(["## Evaluation over an orbit", words, about(found, command)])


def imports() -> str:
    """Of the library, and of the command line."""
    found = read("import")
    if found is None:
        return f"## Import\n\n{not_yet('imports', 'python benchmarks/import_speed.py')}"
    rows = [(f"`{way}`", f"{seconds:.2f}") for way, seconds in found["seconds"].items()]
    return "\n\n".join(["## Import", table(("in a new process", "s"), rows), about(found, found["command"])])


def main() -> None:
    """Write the page, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        if PAGE.read_text(encoding="utf-8") != render():
            sys.exit("docs/speed.md is not what results/speed/ gives: run python benchmarks/speed_page.py")
        return
    PAGE.write_text(render(), encoding="utf-8")
    draw(PAGE.parent / "assets" / "speed.svg")
    print(f"written: {PAGE}")


if __name__ == "__main__":
    main()
