"""Where a job runs: one process for each device of each machine, started by Lightning."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta

import torch
from lightning.fabric import Fabric
from lightning.fabric.strategies.ddp import DDPStrategy
from lightning.fabric.strategies.launchers.subprocess_script import _SubprocessScriptLauncher

from tokenstn.system.processes import Watch

PRECISIONS = {"32-true": "float32", "bf16-mixed": "bfloat16", "16-mixed": "float16"}


def fleet(
    accelerator: str = "auto", devices: int | str = "auto", num_nodes: int = 1, precision: str = "32-true"
) -> Fabric:
    """Lightning's view of the devices, not launched yet. Processes only agree on who does what, and wait at the end."""
    if precision not in PRECISIONS:
        raise ValueError(f"--precision {precision}: one of {', '.join(PRECISIONS)}")
    if accelerator not in ("auto", "cpu", "gpu", "cuda", "mps"):
        raise ValueError(f"--accelerator {accelerator}: cpu, gpu or auto")
    if accelerator in ("gpu", "cuda") and not torch.cuda.is_available():
        raise ValueError(f"--accelerator {accelerator}: torch sees no GPU here; use cpu or auto")
    require_devices(devices)
    settings = {"accelerator": accelerator, "devices": devices, "num_nodes": num_nodes, "precision": precision}
    fabric = Fabric(**settings)  # pyright: ignore[reportArgumentType]
    if type(fabric.strategy) is DDPStrategy and fabric.world_size > 1:
        # those who are done wait for the others, however long these take
        fabric = Fabric(**settings, strategy=DDPStrategy(timeout=timedelta(days=30)))  # pyright: ignore[reportArgumentType]
    return fabric


def require_devices(devices: int | str) -> None:
    """Refuse what is neither a number of devices nor a list of theirs."""
    given = [number.strip() for number in str(devices).split(",")]
    if devices != "auto" and not (all(number.isdigit() for number in given) and given != ["0"]):
        raise ValueError(f"--devices {devices}: how many, such as 2; which ones, such as 0,1; or auto")


def company(fabric: Fabric) -> AbstractContextManager[object]:
    """While a launched job runs: when one of its processes dies, the others end with a message, and wait for nobody."""
    launcher = fabric.strategy.launcher
    if fabric.world_size == 1 or not isinstance(launcher, _SubprocessScriptLauncher):
        return nullcontext()  # torchrun or a cluster look after their processes themselves
    return Watch(launcher.procs, "the job is over; called again, it goes on with what is missing")
