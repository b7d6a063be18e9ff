"""Run an exported ONNX file as any other model: the same call and the same result, with onnxruntime instead of torch.

The file is one graph from photos to answers. It is cut open at tensors that have names: a call enters behind the fit,
with the normalised images that every model takes; localizer and classifier are pieces that can be asked on their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from math import prod
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from tokenstn.geometry import Pose, warp
from tokenstn.models.call_checks import check_call
from tokenstn.models.call_settings import AutoViews, CallSettings
from tokenstn.models.exported import ExportInfo
from tokenstn.models.prediction import Prediction
from tokenstn.models.tokenstn import TokenSTN, only
from tokenstn.posteriors import Posterior, RandomSource, Views, family_of
from tokenstn.system.documents import in_short, shown

# the graph's input, and the tensors between its parts
PHOTOS = "photos"
IMAGES, FIT, BELIEFS, VIEW_IMAGES, LOGITS, POSE, ENTROPIES = BETWEEN_PARTS = (
    "images", "fit", "beliefs", "view_images", "view_logits", "pose", "entropies",
)  # fmt: skip
BETWEEN = frozenset((PHOTOS, *BETWEEN_PARTS))


class OnnxPieces:
    """The graph of a file, and sessions for pieces of it, made when they are first run."""

    def __init__(self, path: Path) -> None:
        try:
            import onnx
            import onnxruntime  # noqa: F401 - asked for here, so that the sentence comes at once
        except ImportError as error:
            raise ValueError(f"{error.name} is not installed: pip install 'tokenstn[export]'") from error
        if not path.is_file():
            raise FileNotFoundError(f"there is no file {path}")
        self._path = path
        try:
            # what the file says about other files is not followed: ours are whole
            self._graph = onnx.load(path, load_external_data=False)
            require_whole(self._graph)
            onnx.checker.check_model(self._graph)
        except Exception as error:  # whatever protobuf throws at bytes that are no model
            raise ValueError(f"{path} cannot be read as an ONNX file ({in_short(error)})") from error
        self.metadata = {item.key: item.value for item in self._graph.metadata_props}
        self.outputs = [output.name for output in self._graph.graph.output]
        self._sessions: dict[tuple[str, ...], Any] = {}

    def run(self, given: dict[str, Tensor], outputs: Sequence[str]) -> dict[str, Tensor]:
        """Some tensors of the graph from others; they come back to the device of those."""
        names = list(outputs)
        fed = {name: values.detach().cpu().contiguous().numpy() for name, values in given.items()}
        device = next(iter(given.values())).device
        try:
            found = self._session(tuple(given), tuple(names)).run(names, fed)
        except Exception as error:  # onnxruntime has its own for everything
            raise ValueError(
                f"{self._path} cannot be run ({in_short(error)}): if it was changed after its export, export it again"
            ) from error
        return {name: torch.from_numpy(values).to(device) for name, values in zip(names, found, strict=True)}

    def _session(self, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> Any:
        import onnxruntime
        from onnx.utils import Extractor

        key = (*inputs, "→", *outputs)
        if key not in self._sessions:
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = torch.get_num_threads()
            piece = Extractor(self._graph).extract_model(list(inputs), list(outputs))
            self._sessions[key] = onnxruntime.InferenceSession(
                piece.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        return self._sessions[key]


def require_whole(graph: Any) -> None:
    """Refuse a graph that asks for other files, or whose numbers are not as many as it says: none of ours is so."""
    from onnx import TensorProto, helper

    for tensor in _tensors(graph.graph):
        if tensor.data_location == TensorProto.EXTERNAL or tensor.external_data:
            raise ValueError(f"the numbers of {shown(tensor.name)} are in another file, which is not read")
        if tensor.HasField("raw_data"):
            width = helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
            if any(side < 0 for side in tensor.dims) or prod(tensor.dims) * width > len(tensor.raw_data) + width:
                raise ValueError(f"{shown(tensor.name)} is to have {list(tensor.dims)} numbers, and has fewer")


def _tensors(graph: Any) -> Iterator[Any]:
    """Every tensor that a graph keeps: its own, those in attributes of its nodes, and those of the graphs in them."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
            for inner in (attribute.g, *attribute.graphs):
                yield from _tensors(inner)


class OnnxClassifier(nn.Module):
    """The classifier inside an exported file: images ``(N, C, h, w)``, normalised → logits ``(N, classes)``."""

    def __init__(self, pieces: OnnxPieces, entry: str, info: ExportInfo) -> None:
        super().__init__()
        self.info = info
        self._pieces, self._entry = pieces, entry

    def forward(self, images: Tensor) -> Tensor:
        return self._pieces.run({self._entry: images.float()}, [LOGITS])[LOGITS]


class OnnxModel(TokenSTN):
    """An exported model. It has no parameters in torch, cannot be trained, and runs on the CPU.

    A call takes normalised images of the size that the file was made for, and gives what the graph gives; the number of
    views is that of the export. ``localize`` and ``classify`` work as in every TokenSTN, on the pieces of the file.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        pieces = OnnxPieces(Path(path))
        info = ExportInfo.from_metadata(pieces.metadata, str(path))
        super().__init__(
            OnnxClassifier(pieces, VIEW_IMAGES if info.primitives else IMAGES, info),
            primitives=(),  # a localizer in torch there is none
            posterior=info.posterior,
            input_size=info.preprocessing.size,
            multi_label=info.multi_label,
            auto=AutoViews(doubt=None),  # the graph reads an image once
            poses=info.poses,
            preprocessing=info.preprocessing,
            classes=info.classes,
        )
        self.info = info
        self._pieces = pieces
        self.primitives = info.primitives
        self._families = {primitive: family_of(info.posterior, primitive) for primitive in info.primitives}
        self.thresholds = info.thresholds
        self.eval()

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """What a call gets from the graph."""
        left_out = {"photo_pose", "rectified"}  # the one is about photos, the other is made of the images given
        return tuple(name for name in self._pieces.outputs if name not in left_out)

    def views_for(self, views: int | str | None) -> int:
        """The number of views of the file; another one is refused."""
        known = self.info.views or 1
        if views not in (None, "auto", known) and self.primitives:
            raise ValueError(
                f"views={views!r}: this file was exported with {known}, and looks at no other number of views; "
                f"leave views out, or export the model again with --views {views}"
            )
        return known

    def forward(
        self,
        images: Tensor,
        views: int | Literal["auto"] | None = None,
        sampling: Literal["probable", "random"] = "probable",
        generator: RandomSource = None,
    ) -> Prediction:
        """What the graph says about images ``(B, C, h, w)``, normalised and of its size."""
        number = self.views_for(views)
        check_call(images, len(self.info.preprocessing.mean), number, sampling)
        if sampling != "probable":
            raise ValueError("an exported file looks at its most probable views: leave sampling out")
        size = tuple(images.shape[-2:])
        if size != self.info.preprocessing.size:
            raise ValueError(f"images are {size}, height and width; this file was made for {self.backbone.input_size}")
        said = self._pieces.run({IMAGES: images.float()}, self.outputs)
        names = [primitive.name for primitive in self.primitives]
        nowhere = torch.zeros(len(images), device=images.device)
        pose = Pose.of(**{name: said[name] for name in names}) if names else Pose.of(rotation=nowhere)
        return Prediction(
            probabilities=said["probabilities"],
            pose=pose,
            rectified=warp(images, pose.matrix, validate=False) if names else images,
            entropy={name: said[f"entropy_{name}"] for name in names},
            spread={name: said[f"spread_{name}"] for name in names},
            views=Views(said["view_matrices"], said["view_weights"]) if names else only(pose),
            disagreement=said["disagreement"] if names else nowhere,
            pose_ambiguous=said.get("pose_ambiguous"),
            class_uncertain=said.get("class_uncertain"),
        )

    def heads(self, images: Tensor, closer: bool = False) -> dict[str, Tensor]:
        if not self.primitives:
            return {}
        return split_beliefs(self, self._pieces.run({IMAGES: images.float()}, [BELIEFS])[BELIEFS])

    def classify(
        self,
        images: Tensor,
        posteriors: dict[str, Posterior],
        views: int | Literal["auto"] = 1,
        sampling: Literal["probable", "random"] = "probable",
        generator: RandomSource = None,
    ) -> Prediction:
        number = self.views_for(views) if views == "auto" else views
        return super().classify(images, posteriors, number, sampling, generator)

    def call_settings(
        self, views: int | str = "auto", sampling: str = "probable", precision: str = "float32", execution: str = "onnx"
    ) -> CallSettings:
        number = self.views_for("auto") if views == "auto" else views
        return super().call_settings(number, sampling, precision, "onnx")

    def save_pretrained(self, save_directory: str | PathLike[str], **_: Any) -> str | None:
        raise ValueError("an exported file cannot be turned back into a model folder: keep the one it was made from")


def split_beliefs(model: TokenSTN, beliefs: Tensor) -> dict[str, Tensor]:
    """The numbers of all heads ``(B, outputs)`` by primitive."""
    widths = [family_of(model.posterior, primitive).outputs(primitive) for primitive in model.primitives]
    names = [primitive.name for primitive in model.primitives]
    return dict(zip(names, beliefs.split(widths, 1), strict=True))
