"""What a graph that is being traced will be used for."""

from __future__ import annotations

from collections.abc import Hashable

import torch


def compiling_to_run_here() -> bool:
    """Whether ``torch.compile`` is tracing, for this process and its devices; an export goes elsewhere."""
    # is_exporting() is true in every compiled graph of torch 2.11
    return torch.compiler.is_dynamo_compiling() and not torch.compiler._is_exporting_flag


def static(argument: Hashable) -> bool:
    """Whether ``torch.compile`` takes this for a constant: whole numbers that do not stand for any size of image."""
    from torch.fx.experimental.symbolic_shapes import has_static_value  # slow to import, and there when compiling

    if isinstance(argument, tuple):
        return all(static(each) for each in argument)
    return isinstance(argument, int) and has_static_value(argument)
