"""What an exported file says about itself: enough to prepare its images and to read its answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from tokenstn.geometry import Primitive
from tokenstn.models.folder import primitive_from, primitive_to
from tokenstn.models.preprocessing import Preprocessing
from tokenstn.models.schema import EXPORT, problem_of
from tokenstn.models.thresholds import Thresholds
from tokenstn.system.documents import in_short, parsed_json

FORMAT = 1


@dataclass(frozen=True)
class ExportInfo:
    """The metadata of an exported model; plain values in JSON, one for each field.

    views: how many it looks at, None without a rectifier. classifier: the class of the network, for people.
    parameters, localizer_parameters: how many numbers were trained. weights_sha256: of the ``model.safetensors`` of the
    model folder that it was exported from. thresholds: those of its flags, None where it has none.
    """

    format: int
    tokenstn: str
    classifier: str
    weights_sha256: str
    classes: tuple[str, ...] | None
    multi_label: bool
    primitives: tuple[Primitive, ...]
    posterior: str
    poses: Literal["absolute", "relative"]
    views: int | None
    preprocessing: Preprocessing
    parameters: int
    localizer_parameters: int
    thresholds: Thresholds | None

    def to_json(self) -> dict[str, Any]:
        """Plain values by field."""
        return {
            **{field.name: getattr(self, field.name) for field in fields(self)},
            "classes": None if self.classes is None else list(self.classes),
            "primitives": [primitive_to(primitive) for primitive in self.primitives],
            "preprocessing": asdict(self.preprocessing),
            "thresholds": None if self.thresholds is None else self.thresholds.to_json(),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> ExportInfo:
        """What :meth:`to_json` gave."""
        values = {field.name: document[field.name] for field in fields(cls)}
        problem = problem_of(values, EXPORT)
        if problem is not None:
            raise ValueError(problem)
        classes, thresholds = values["classes"], values["thresholds"]
        values["classes"] = None if classes is None else tuple(classes)
        values["primitives"] = tuple(primitive_from(item) for item in values["primitives"])
        values["preprocessing"] = Preprocessing(**values["preprocessing"])
        values["thresholds"] = None if thresholds is None else Thresholds.from_json(thresholds)
        return cls(**values)

    def to_metadata(self) -> dict[str, str]:
        """Each field as text, as ONNX files keep it."""
        return {name: json.dumps(value, ensure_ascii=False) for name, value in self.to_json().items()}

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, str], name: str) -> ExportInfo:
        """What :meth:`to_metadata` gave; a file that is not ours is refused by its ``name``."""
        found = _read(metadata.get("format"))
        if "weights_sha256" not in metadata or not isinstance(found, int):
            raise ValueError(f"{name} was not written by tokenstn export: it does not say how its images are prepared")
        if found > FORMAT:
            raise ValueError(
                f"{name} has format {found}, written by tokenstn {_read(metadata.get('tokenstn'))}; this version reads "
                f"up to format {FORMAT}: upgrade tokenstn"
            )
        try:
            return cls.from_json({field.name: parsed_json(metadata[field.name], field.name) for field in fields(cls)})
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"the metadata of {name} cannot be read ({in_short(error)}): export the model again"
            ) from error


def _read(text: str | None) -> Any:
    try:
        return parsed_json(text or "null", "it")
    except ValueError:
        return None
