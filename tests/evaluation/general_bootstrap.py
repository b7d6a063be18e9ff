"""The cluster bootstrap as it is defined, for any statistic: what the quick ways of the package are compared with."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from tokenstn.evaluation.intervals import percentile_interval, resampled_weights
from tokenstn.evaluation.results import Interval


def cluster_bootstrap(
    statistic: Callable[[NDArray[np.int64]], float | None], clusters: Tensor, draws: int = 1000, seed: int = 0
) -> Interval | None:
    """A statistic of how often each of M answers counts, ``(M,)``; None where it is not defined on the answers."""
    value = statistic(np.ones(clusters.numel(), dtype=np.int64))
    if value is None:
        return None
    return percentile_interval(value, [statistic(weights) for weights in resampled_weights(clusters, draws, seed)])
