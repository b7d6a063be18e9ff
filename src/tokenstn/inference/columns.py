"""A model's answers as the rows of a table that Parquet keeps."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from tokenstn.inference.poses import pose_columns
from tokenstn.inference.sources import ImageList, text_of
from tokenstn.inference.stream import Answered, Views
from tokenstn.models import Prediction, TokenSTN
from tokenstn.models.prediction import answer_confidence
from tokenstn.models.preprocessing import preprocessing_of

BOX = ("left", "top", "right", "bottom")
NONE = ";"  # several labels are written a;b, as in a manifest, and this says that there is none


class AnswerColumns:
    """How the answers of one model to one list of images become columns; ``schema`` is the same for every batch."""

    def __init__(self, model: TokenSTN, images: ImageList, views: Views, top: int, about: dict[str, Any]) -> None:
        self._model, self._images = model, images
        self._primitives = [primitive.name for primitive in model.primitives]
        blank = self._blank(views)
        outputs = blank.probabilities.shape[1]
        self._top = min(top, outputs)
        self._names = np.asarray(model.class_names(outputs), dtype=object)
        if len(self._names) != outputs:
            raise ValueError(f"the model names {len(self._names)} classes and tells {outputs} apart: a broken folder")
        self.schema = self._schema(blank).with_metadata({b"tokenstn": json.dumps(about).encode()})

    def rows(self, answered: Answered) -> pa.RecordBatch:
        """One row for each image of a batch that could be read."""
        prediction = answered.prediction
        columns = {} if prediction is None else self._columns(answered, prediction)
        arrays = [pa.array(columns.get(field.name, []), field.type) for field in self.schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _columns(self, answered: Answered, prediction: Prediction) -> dict[str, Any]:
        count = len(answered.rows)
        table = self._images.table
        columns: dict[str, Any] = {"path": [text_of(table.item_name(row)) for row in answered.rows]}
        if table.boxes is not None:
            boxes = table.boxes[answered.rows].numpy()
            columns |= {name: boxes[:, k] for k, name in enumerate(BOX)}
        columns |= self._classes(prediction)
        if self._primitives:
            columns |= pose_columns(prediction, answered.sizes, preprocessing_of(self._model), self._primitives)
        columns["views"] = np.ones(count, dtype=np.int32)
        if prediction.views is not None:
            columns["views"] = (prediction.views.weights > 0).sum(1).int().cpu().numpy()
        for name in ("disagreement", "pose_ambiguous", "class_uncertain"):
            values = getattr(prediction, name)
            columns[name] = [None] * count if values is None else values.cpu().numpy()
        return columns

    def _classes(self, prediction: Prediction) -> dict[str, Any]:
        probabilities = prediction.probabilities.float().cpu()
        best = probabilities.topk(self._top, 1)
        shares, names = best.values.numpy(), self._names[best.indices.numpy()]
        found = names[:, 0].tolist()
        if self._model.multi_label:
            found = [";".join(self._names[row]) or NONE for row in (probabilities > 0.5).numpy()]
        return {
            "prediction": found,
            "probability": answer_confidence(probabilities, self._model.multi_label).numpy(),
            "top_classes": names.tolist(),
            "top_probabilities": shares.tolist(),
        }

    @torch.no_grad()
    def _blank(self, views: Views) -> Prediction:
        """The answer to a blank image, which has all the columns that there will be."""
        preprocessing = preprocessing_of(self._model)
        pixels = torch.zeros(1, len(preprocessing.mean), *preprocessing.size, device=self._model.device)
        return self._model(pixels, views=views)

    def _schema(self, blank: Prediction) -> pa.Schema:
        kinds: dict[str, pa.DataType] = {"path": pa.string()}
        if self._images.table.boxes is not None:
            kinds |= dict.fromkeys(BOX, pa.int32())
        kinds |= {"prediction": pa.string(), "probability": pa.float32()}
        kinds |= {"top_classes": pa.list_(pa.string()), "top_probabilities": pa.list_(pa.float32())}
        if self._primitives:
            preprocessing = preprocessing_of(self._model)
            posed = pose_columns(blank, [preprocessing.size], preprocessing, self._primitives)
            kinds |= {name: pa.bool_() if values.dtype == np.bool_ else pa.float32() for name, values in posed.items()}
        kinds |= {"views": pa.int32(), "disagreement": pa.float32()}
        kinds |= {"pose_ambiguous": pa.bool_(), "class_uncertain": pa.bool_()}
        return pa.schema(list(kinds.items()))
