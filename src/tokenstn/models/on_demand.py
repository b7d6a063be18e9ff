"""Values by name that are worked out when somebody asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from inspect import isroutine
from typing import Any

from torch import Tensor
from torch.utils import _pytree as pytree


class OnDemand(Mapping[str, Tensor]):
    """A mapping whose values are made at the first look and kept: most callers never look at some of them.

    Some values may be there already, as where code that maps one collection to another makes one like this.

    >>> import torch
    >>> found = OnDemand({"one": lambda: torch.ones(1), "two": torch.tensor([2.0])})
    >>> list(found), found["one"], found["two"]
    (['one', 'two'], tensor([1.]), tensor([2.]))
    """

    def __init__(self, values: Mapping[str, Callable[[], Tensor] | Tensor]) -> None:
        self._values: dict[str, Any] = dict(values)

    def __getitem__(self, name: str) -> Tensor:
        value = self._values[name]
        if isroutine(value):  # a value that is being traced can be called, too
            value = self._values[name] = value()
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return repr(dict(self))


def _flatten(found: OnDemand) -> tuple[list[Tensor], list[str]]:
    return list(found.values()), list(found)


def _flatten_with_keys(found: OnDemand) -> tuple[list[tuple[Any, Tensor]], list[str]]:
    return [(pytree.MappingKey(name), value) for name, value in found.items()], list(found)


def _unflatten(values: Iterable[Any], names: list[str]) -> OnDemand:
    return OnDemand(dict(zip(names, values, strict=True)))


# a prediction is a tree of tensors, for whatever moves, stacks or exports it
pytree.register_pytree_node(
    OnDemand,
    _flatten,
    _unflatten,
    serialized_type_name="tokenstn.OnDemand",
    flatten_with_keys_fn=_flatten_with_keys,
)
