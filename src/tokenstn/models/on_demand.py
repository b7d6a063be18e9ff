"""Values by name that are worked out when somebody asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from torch import Tensor


class OnDemand(Mapping[str, Tensor]):
    """A mapping whose values are made at the first look and kept: most callers never look at some of them.

    >>> import torch
    >>> found = OnDemand({"one": lambda: torch.ones(1)})
    >>> list(found), found["one"]
    (['one'], tensor([1.]))
    """

    def __init__(self, ways: Mapping[str, Callable[[], Tensor]]) -> None:
        self._ways = dict(ways)
        self._found: dict[str, Tensor] = {}

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._found:
            self._found[name] = self._ways[name]()
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._ways)

    def __len__(self) -> int:
        return len(self._ways)

    def __repr__(self) -> str:
        return repr(dict(self))
