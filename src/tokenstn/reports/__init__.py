"""Figures and the one-file HTML report, drawn from an evaluation's results and nothing else."""

from tokenstn.reports.compare import comparison_plot, write_comparison
from tokenstn.reports.figures import figures
from tokenstn.reports.html import render
from tokenstn.reports.plot import Plot
from tokenstn.reports.write import write_report

__all__ = ["Plot", "comparison_plot", "figures", "render", "write_comparison", "write_report"]
