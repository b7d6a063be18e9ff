"""The figure of cost: what every further view takes."""

from __future__ import annotations

from tokenstn.evaluation.results import Evaluation
from tokenstn.reports.plot import BARE, RECTIFIED, Plot, blank, look


def cost_plots(evaluation: Evaluation) -> list[Plot]:
    """None for a bare classifier: its two figures need no drawing."""
    views = {views for views, _ in (*evaluation.cost.flops, *evaluation.cost.throughput)}
    return [cost(evaluation)] if views - {0} else []


@look()
def cost(evaluation: Evaluation) -> Plot:
    """FLOPs and throughput against the number of views; 0 views are the bare classifier."""
    flops, throughput = dict(evaluation.cost.flops), dict(evaluation.cost.throughput)
    steps = sorted({*flops, *throughput})
    figure = blank(2.7)
    panels = [panel for panel in ((flops, "GFLOPs per image", 1e9), (throughput, "images per second", 1.0)) if panel[0]]
    every_axes = figure.subplots(1, len(panels), gridspec_kw={"wspace": 0.12}, squeeze=False)[0]
    for axes, (values, title, unit) in zip(every_axes, panels, strict=True):
        places = [place for place, views in enumerate(steps) if views in values]
        heights = [values[steps[place]] / unit for place in places]
        colors = [BARE if steps[place] == 0 else RECTIFIED for place in places]
        axes.bar(places, heights, color=colors, width=0.66)
        for place, height in zip(places, heights, strict=True):
            axes.text(place, height, f"{height:,.3g}" if height < 1000 else f"{height:,.0f}", ha="center", va="bottom",
                      fontsize=7.5)  # fmt: skip
        axes.set_title(title, loc="left", fontweight="normal")
        axes.set_xticks(range(len(steps)), ["bare" if views == 0 else str(views) for views in steps])
        axes.set_yticks([])
        axes.grid(visible=False)
        axes.spines["left"].set_visible(False)
        axes.margins(y=0.12)
        axes.set_xlabel("views")
    rows = tuple((views, flops.get(views), throughput.get(views)) for views in steps)
    caption = f"On {evaluation.cost.device}, in batches of {evaluation.cost.batch_size:,}."
    columns = ("views", "flops_per_image", "images_per_second")
    return Plot("cost", "Cost by the number of views", figure, columns, rows, caption)
