"""Checkpoints without what never changes: a frozen classifier is not written again and again, but recognised."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from tokenstn.models.digest import digest_of


class FrozenState:
    """The weights and buffers of a classifier whose parameters are all frozen; nothing, where one of them is not.

    Args:
        whole: what checkpoints are made of.
        classifier: a part of it.
    """

    def __init__(self, whole: nn.Module, classifier: nn.Module) -> None:
        frozen = not any(parameter.requires_grad for parameter in classifier.parameters())
        known = {id(values) for values in classifier.state_dict(keep_vars=True).values()} if frozen else set()
        state = whole.state_dict(keep_vars=True)
        self.values: dict[str, Tensor] = {name: values for name, values in state.items() if id(values) in known}
        self._digest: str | None = None

    @property
    def digest(self) -> str:
        """Which they are; they are read once."""
        if self._digest is None:
            self._digest = digest_of(self.values)
        return self._digest

    def leave_out(self, checkpoint: dict[str, Any]) -> None:
        """Take the values out of a checkpoint, and remember which they were."""
        if self.values:
            state = checkpoint["state_dict"]
            checkpoint["state_dict"] = {name: state[name] for name in state if name not in self.values}
            checkpoint["frozen"] = self.digest

    def put_back(self, checkpoint: dict[str, Any]) -> None:
        """The way back; refuses a checkpoint of a run with another classifier."""
        if "frozen" not in checkpoint:
            return
        if checkpoint["frozen"] != self.digest:
            raise ValueError(
                "the frozen classifier is not the one that the run began with: go on with that, or start anew in "
                "another folder"
            )
        checkpoint["state_dict"] = {**checkpoint["state_dict"], **self.values}
