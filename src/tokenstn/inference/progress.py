"""A bar for jobs that run for hours: how many images are done, how fast, and when the rest will be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

WINDOW = 120.0  # seconds that the estimate looks back


class _Speed(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f} images/s")


@contextmanager
def bar(title: str, images: int, shown: bool) -> Iterator[Callable[[int], None]]:
    """A function to be called with the number of images that were done since the last time."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), _Speed(), TimeRemainingColumn())
    with Progress(*columns, disable=not shown, speed_estimate_period=WINDOW) as progress:
        task = progress.add_task(title, total=images)
        yield lambda count: progress.advance(task, count)
