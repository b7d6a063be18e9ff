"""The parts of a model as one ONNX graph: each is traced with a batch of its own, then they are put together by name.

Opset 18 with torch's dynamo exporter: GridSample is spelled as all runtimes read it (``bilinear``), and the antialiased
Resize of the localizer takes no pixel from outside the image.
"""

from __future__ import annotations

import hashlib
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import onnx
import torch
from onnx import GraphProto, ModelProto, TensorProto
from torch import Tensor, nn

from tokenstn.inference.export_parts import (
    MOVING_PHOTOS,
    Joining,
    cannot_be_traced,
    everything,
    parts_of,
    public_outputs,
)
from tokenstn.models import TokenSTN
from tokenstn.models.exported import ExportInfo
from tokenstn.models.onnx import FIT, LOGITS, PHOTOS, VIEW_IMAGES

OPSET = 18
BATCH = "batch"
LARGEST_FILE = 2**31 - 1  # bytes, what a protobuf file holds
WORTH_SHARING = 1024  # bytes of an initializer


class OnnxWriter:
    """Writes a model as an ONNX file; again with other flags it takes a second, for only the last part knows of them.

    Args:
        photos: a batch of two, uint8 ``(2, C, H, W)``, to trace with.
    """

    def __init__(self, model: TokenSTN, photos: Tensor) -> None:
        self._model, self._photos = model, photos
        self._pieces: dict[str, ModelProto] = {}

    def write(self, path: Path, info: ExportInfo) -> None:
        """One file, with the flags and the metadata that ``info`` says."""
        parts = parts_of(self._model, info)
        _require_size(parts)
        with torch.no_grad():
            known = everything(parts, self._photos)
        for part in parts:
            name = type(part).__name__
            if name not in self._pieces or isinstance(part, Joining):
                self._pieces[name] = piece_of(part, known)
        joined = join(list(self._pieces.values()), public_outputs(self._model, known), info.to_metadata())
        onnx.save(joined, path)


def piece_of(part: Any, known: Mapping[str, Tensor]) -> ModelProto:
    """One part, its inputs and outputs named as in ``known``, all other names its own."""
    given = tuple(known[name] for name in part.inputs)
    with _quiet(), torch.no_grad():
        names = list(part(*given))
        try:
            program = torch.onnx.export(
                part.eval(),
                given,
                dynamo=True,
                opset_version=OPSET,
                input_names=list(part.inputs),
                output_names=names,
                dynamic_shapes=_moving_axes(part.inputs, given),
                verbose=False,
            )
        except torch.onnx.OnnxExporterError as error:
            raise cannot_be_traced("ONNX", error.__cause__ or error, type(part).__name__.lower()) from error
    assert program is not None
    return _renamed(program.model_proto, f"{type(part).__name__.lower()}/", {*part.inputs, *names})


def join(pieces: Sequence[ModelProto], outputs: Sequence[str], metadata: Mapping[str, str]) -> ModelProto:
    """Pieces whose tensors have the same names where they are to be connected."""
    graphs = [piece.graph for piece in pieces]
    shapes = {value.name: value for graph in graphs for value in (*graph.input, *graph.output)}
    for name, value in shapes.items():
        if name != FIT:  # each piece called the length of its own batch so, and runtimes take equal names at their word
            value.type.tensor_type.shape.dim[0].dim_param = "views" if name in (VIEW_IMAGES, LOGITS) else BATCH
    cuts = [value for name, value in shapes.items() if name not in (PHOTOS, *outputs)]
    joined = onnx.helper.make_graph(
        [node for graph in graphs for node in graph.node],
        "tokenstn",
        [shapes[PHOTOS]],
        [shapes[name] for name in outputs],
        _shared(graphs),
        value_info=cuts,
    )
    model = onnx.helper.make_model(
        joined, ir_version=pieces[0].ir_version, opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        producer_name="tokenstn",
    )  # fmt: skip
    onnx.helper.set_model_props(model, dict(metadata))
    onnx.checker.check_model(model)
    return model


def _moving_axes(names: Sequence[str], given: Sequence[Tensor]) -> tuple[dict[int, Any] | None, ...]:
    if names == (PHOTOS,):
        return (MOVING_PHOTOS,)
    batch: Any = torch.export.Dim(BATCH)
    images = min(len(tensor) for name, tensor in zip(names, given, strict=True) if name != FIT)
    # several views of each image are one batch for the classifier
    return tuple(
        None if name == FIT else {0: batch if len(tensor) == images else len(tensor) // images * batch}
        for name, tensor in zip(names, given, strict=True)
    )


def _renamed(piece: ModelProto, prefix: str, kept: set[str]) -> ModelProto:
    """The same with every name prefixed but those of the tensors that are shared with other parts."""

    def name(old: str) -> str:
        return old if old in kept or not old else prefix + old

    if piece.functions:
        raise ValueError("the exporter wrote functions into the graph: upgrade torch and onnxscript")
    for graph in _with_bodies(piece.graph):
        for node in graph.node:
            node.name = prefix + node.name
            node.input[:] = [name(old) for old in node.input]
            node.output[:] = [name(old) for old in node.output]
            node.ClearField("metadata_props")  # where in the source it came from
        for value in (*graph.initializer, *graph.input, *graph.output):
            value.name = name(value.name)
        del graph.value_info[:]
    return piece


def _with_bodies(graph: GraphProto) -> Iterator[GraphProto]:
    """A graph, and the graphs inside its conditions and loops."""
    yield graph
    for attribute in (attribute for node in graph.node for attribute in node.attribute):
        if attribute.HasField("g"):
            yield from _with_bodies(attribute.g)


def _shared(graphs: Sequence[GraphProto]) -> list[TensorProto]:
    """The constants of all graphs, equal ones once: the localizer reads through the classifier's first layers."""
    kept: dict[bytes, str] = {}
    tensors: list[TensorProto] = []
    same: dict[str, str] = {}
    for tensor in (tensor for graph in graphs for tensor in graph.initializer):
        key = hashlib.sha256(repr((tensor.data_type, list(tensor.dims))).encode() + tensor.raw_data).digest()
        if len(tensor.raw_data) >= WORTH_SHARING and key in kept:
            same[tensor.name] = kept[key]
            continue
        kept[key] = tensor.name
        tensors.append(tensor)
    for body in (body for graph in graphs for body in _with_bodies(graph)):
        for node in body.node:
            node.input[:] = [same.get(name, name) for name in node.input]
    return tensors


def _require_size(parts: Sequence[nn.Module]) -> None:
    tensors = {id(tensor): tensor for part in parts for tensor in part.state_dict(keep_vars=True).values()}
    size = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
    if size > 0.95 * LARGEST_FILE:
        raise ValueError(
            f"the weights take {size / 2**30:.1f} GiB, and one ONNX file holds 2: export it with --format pt2 instead"
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """The exporter talks to its developers: about decompositions, deprecations and types."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
