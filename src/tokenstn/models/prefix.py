"""Reading the tokens of a classifier's first layers: three ways, one result.

- timm models: ``forward_intermediates``, stopped after the layer asked for;
- any other module, by the name of a layer: torchvision's graph, cut at that layer;
- a module that cannot be traced: a forward hook that stops the pass. Eager mode only.

All read from a twin (``models/twin.py``) and return a grid of tokens ``(B, C, h, w)``, without class and register
tokens.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, fx, nn
from torchvision.models.feature_extraction import create_feature_extractor

from tokenstn.models.twin import accept_any_size, in_evaluation, twin_of

MOST_PREFIX_TOKENS = 8  # class, distillation and register tokens in front of a token sequence

Prefix = Callable[[Tensor], Tensor]


def find_prefix(classifier: nn.Module, shared: int | str, example: Tensor) -> Prefix:
    """The function from images ``(B, C, H, W)`` to tokens ``(B, D, h, w)`` after the shared layers.

    Args:
        shared: how many entries of ``forward_intermediates``, or the name of a layer.
        example: images that the classifier accepts, to try the function on.
    """
    if isinstance(classifier, torch.jit.ScriptModule):
        raise ValueError(
            "the classifier is a TorchScript module, whose layers cannot be read one by one: give the module that it "
            "was made from"
        )
    if isinstance(shared, str):
        return _by_layer_name(classifier, shared, example)
    if not hasattr(classifier, "forward_intermediates"):
        names = [name for name, _ in classifier.named_children()]
        raise ValueError(
            f"{type(classifier).__name__} has no forward_intermediates, as most of timm's models have, so that "
            f"shared={shared} cannot count its layers: name the layer that the localizer reads instead, for example "
            f"shared={(names or ['layer'])[0]!r} (its parts are {', '.join(names) or 'none'}; any name in "
            "named_modules() will do)"
        )
    return _TimmPrefix(classifier, shared)


class _TimmPrefix:
    """The n-th intermediate of a timm model, at any input size that its twin can be talked into."""

    def __init__(self, classifier: nn.Module, shared: int) -> None:
        layers = len(getattr(classifier, "feature_info", ())) or 1
        if not 1 <= shared <= layers:
            raise ValueError(
                f"shared={shared}: {type(classifier).__name__} has {layers} intermediates; take from 1 to {layers}"
            )
        self.twin = twin_of(classifier)
        accept_any_size(self.twin)
        self.index = shared - 1

    def __call__(self, images: Tensor) -> Tensor:
        # a list with one index: a plain int would mean "the last n"
        (tokens,) = self.twin.forward_intermediates(  # pyright: ignore[reportCallIssue]
            images, indices=[self.index], norm=False, stop_early=True, output_fmt="NCHW", intermediates_only=True
        )
        return tokens


class _GraphPrefix:
    """The traced computation up to a layer, run on the twin's own modules."""

    def __init__(self, twin: nn.Module, layer: str) -> None:
        extractor = create_feature_extractor(twin, {layer: "tokens"})
        in_evaluation(twin)
        # the generated function takes the root module as ``self``: called on the twin, it holds no state of its own
        self.function = type(fx.GraphModule(twin, extractor.eval_graph)).forward  # pyright: ignore
        self.twin, self.layer = twin, layer

    def __reduce__(self) -> tuple:
        return _GraphPrefix, (self.twin, self.layer)  # a generated function has no place to be found at: trace again

    def __call__(self, images: Tensor) -> Tensor:
        return self.function(self.twin, images)["tokens"]


class _HookPrefix:
    """An ordinary forward pass of the twin, stopped by a hook behind the layer."""

    class _ReachedError(Exception):
        pass

    def __init__(self, twin: nn.Module, layer: str) -> None:
        self.twin, self.layer = twin, layer

    def __call__(self, images: Tensor) -> Tensor:
        caught = []

        def stop(module: nn.Module, inputs: tuple, output) -> None:
            caught.append(output)
            raise _HookPrefix._ReachedError

        handle = self.twin.get_submodule(self.layer).register_forward_hook(stop)
        try:
            self.twin(images)
        except _HookPrefix._ReachedError:
            pass
        finally:
            handle.remove()
        if not caught:
            raise ValueError(f"the classifier's forward pass never reached the layer {self.layer!r}")
        return caught[0]


class _AsGrid:
    """Whatever a layer puts out, as a grid ``(B, C, h, w)``."""

    def __init__(self, prefix: Prefix, example: Tensor, output: Tensor) -> None:
        self.prefix = prefix
        self.channels_last = output.ndim == 4 and _channels_last(output.shape, example.shape)

    def __call__(self, images: Tensor) -> Tensor:
        output = _first_tensor(self.prefix(images))
        if output.ndim == 4:
            return output.movedim(-1, 1) if self.channels_last else output
        height, width = images.shape[-2:]
        rows, columns = token_grid(output.shape[1], height, width)
        return output[:, -rows * columns :].transpose(1, 2).unflatten(2, (rows, columns))


def token_grid(count: int, height: int, width: int) -> tuple[int, int]:
    """Rows and columns of a token sequence over an image, allowing for a few tokens in front of it.

    >>> token_grid(197, 224, 224), token_grid(1 + 8 * 16, 128, 256)
    ((14, 14), (8, 16))
    """
    for prefix_tokens in range(MOST_PREFIX_TOKENS + 1):
        patches = count - prefix_tokens
        columns = round((patches * width / height) ** 0.5) if patches > 0 else 0
        if columns and patches % columns == 0 and patches // columns == round(columns * height / width):
            return patches // columns, columns
    raise ValueError(f"{count} tokens do not form a grid over an image of {height}×{width} pixels")


def _channels_last(output: Sequence[int], image: Sequence[int]) -> bool:
    """Whether only the two axes after the batch have the image's aspect: torchvision's Swin puts channels last.

    >>> _channels_last((1, 28, 14, 96), (1, 3, 224, 112)), _channels_last((1, 64, 64, 32), (1, 3, 256, 128))
    (True, False)
    """
    aspect = image[-1] / image[-2]

    def fits(height: int, width: int) -> bool:
        return abs(width - height * aspect) < 1  # sides that are odd may be rounded up, one more than the other

    return fits(output[1], output[2]) and not fits(output[2], output[3])


def _by_layer_name(classifier: nn.Module, layer: str, example: Tensor) -> Prefix:
    names = [name for name, _ in classifier.named_modules() if name]
    if layer not in names:
        close = difflib.get_close_matches(layer, names, n=3, cutoff=0.3) or names[:3]
        raise ValueError(
            f"{type(classifier).__name__} has no layer named {layer!r}; did you mean {' or '.join(map(repr, close))}? "
            "named_modules() lists them all"
        )
    hooked = _HookPrefix(twin_of(classifier), layer)
    expected = _first_tensor(hooked(example))
    if expected.ndim not in (3, 4):
        raise ValueError(
            f"the layer {layer!r} puts out a tensor of shape {tuple(expected.shape)}: the localizer needs a map "
            "(B, C, h, w) or tokens (B, N, C); name a layer before the pooling"
        )
    try:
        traced = _GraphPrefix(twin_of(classifier), layer)
        if torch.allclose(_first_tensor(traced(example)), expected, atol=1e-4, rtol=1e-4):
            return _AsGrid(traced, example, expected)
        reason = "its trace computes something else"
    except Exception as error:  # tracing runs the user's code on proxies and can fail in any way
        reason = str(error).splitlines()[0].split(". ")[0] if str(error) else type(error).__name__
    warnings.warn(
        f"{type(classifier).__name__} cannot be cut at {layer!r} as a graph ({reason}); a hook is used, which works in "
        "eager mode only: not under torch.compile or torch.export",
        stacklevel=2,
    )
    return _AsGrid(hooked, example, expected)


def _first_tensor(output) -> Tensor:
    while isinstance(output, tuple | list):
        output = output[0]
    return output if isinstance(output, Tensor) else output.last_hidden_state
