"""``tokenstn bench``: every method on the same images and weights, in one table."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenstn.evaluation.bench_results import BenchResults


@dataclass(frozen=True)
class BenchResult:
    """files: NAME.json and what was rendered from it; results: what that holds, None where nothing was run."""

    files: list[Path]
    results: BenchResults | None


def bench(
    experiment: str | None = None,
    data: str | None = None,
    classifier: str | None = None,
    methods: str = "all",
    quick: bool = False,
    seeds: list[int] | None = None,
    out: str = "results",
    cache: str = "runs/bench",
    assets: list[str] | None = None,
    accelerator: str = "auto",
    devices: int | str = "auto",
    processes: int | None = None,
    workers: int = 0,
    dry: bool = False,
    progress: bool = True,
) -> BenchResult:
    """Run an experiment: train and judge every method with every seed, and render the table and the figures.

    What was finished is kept and not computed again: stop it at any time and start it again.

    Example: tokenstn bench rotmnist --quick=true

    Example: tokenstn bench --data photos/ --classifier my-model/ --methods vanilla,tta,stn,tokenstn

    Args:
        experiment: the name of an experiment, such as rotmnist, or a YAML file; own-data when left out.
        data: images to run it on instead of its own: whatever tokenstn train takes.
        classifier: for these images: a trained one as a model folder, or a timm name; a small ViT when left out.
        methods: all, or the names of some rows, with commas.
        quick: a run of minutes, as the experiment describes it, that shows that everything works.
        seeds: those of the experiment when left out.
        out: a folder for NAME.json, NAME.md, NAME.tex and the figures.
        cache: a folder for what is finished.
        assets: more folders to look into for data and weights, besides this one, .assets and data.
        accelerator: cpu, gpu or auto.
        devices: auto for every GPU; how many; or their numbers, such as 0,2. Cells are spread over them.
        processes: on each device; 1 on a GPU, one for each core on the CPU when left out.
        workers: processes that read images, for each of these.
        dry: say what there is to do, and do nothing.
        progress: show a progress bar.
    """
    arguments = dict(locals())

    from tokenstn.benchmark.cache import Cache
    from tokenstn.benchmark.conduct import Conductor
    from tokenstn.benchmark.files import OWN_DATA, read_experiment
    from tokenstn.benchmark.workers import seats
    from tokenstn.inference.devices import require_devices
    from tokenstn.reports.bench import require_free, write_bench
    from tokenstn.system.files import require_writable
    from tokenstn.verbs import bench_steps as steps
    from tokenstn.verbs.speech import say
    from tokenstn.verbs.typed import as_typed

    if experiment is None and data is None:
        raise ValueError("name an experiment, such as rotmnist, or images of your own with --data")
    if seeds is not None and len(set(seeds)) < len(seeds):
        raise ValueError(f"--seeds {','.join(map(str, seeds))}: one is named twice, and would count as another run")
    require_devices(devices)
    places = seats(accelerator, devices, processes)
    wanted = tuple(name.strip() for name in methods.split(",") if name.strip())
    described = read_experiment(
        experiment or OWN_DATA, quick=quick, data=data, classifier=classifier, methods=wanted, seeds=seeds
    )
    if not dry:
        require_writable(Path(out))
        require_writable(Path(cache))
        require_free(out, described.name, {name: spec.source for name, spec in described.data.items()})
    console = steps.console()
    conductor = Conductor(described, Cache(cache), places, tuple(assets or ()), workers)
    if data is not None and conductor.planner.missing:
        raise ValueError(f"--data {data}: {next(iter(conductor.planner.missing.values()))}")
    steps.say_what_was_understood(console, conductor)
    if dry:
        return BenchResult([], None)
    typed = {name: json.dumps(value) if isinstance(value, list) else value for name, value in arguments.items()}
    command = as_typed(bench, typed).replace("--experiment ", "", 1)
    with steps.watching(console, progress) as watch:
        results = conductor.run(watch, command)
    files = write_bench(results, out)
    steps.say_what_was_found(console, results, conductor)
    say(console, "written", ", ".join(str(file) for file in files))
    return BenchResult(files, results)
