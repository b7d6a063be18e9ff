"""Does an exported model answer as PyTorch does? From the bytes of image files, read by the script of the bundle.

What is expected is made without the exported parts: the product's own reading, fitting and call.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tokenstn.data import fit, read_image, to_float
from tokenstn.geometry import fit_matrix, pose_in_photo
from tokenstn.inference.bundle import EXPECTED
from tokenstn.inference.bundle_pictures import as_png
from tokenstn.models import Prediction, TokenSTN
from tokenstn.models.averaging import doubts_of
from tokenstn.models.exported import ExportInfo

LOOSER = 10.0  # times the tolerance, for all numbers that are not probabilities
LEVEL = 1.0  # of 255, for the rectified image: rounding may fall to either side
SURE = {"pose_ambiguous": 1e-3, "class_uncertain": 0.05}  # so far from its threshold, a flag has to be the same
GOLDEN_IMAGES = 5


class Check:
    """A model and the image files that its export is checked on.

    files: their bytes by name. expected: for each, what the exported model should say. allowed: how far each output
    may be away.
    """

    def __init__(self, model: TokenSTN, info: ExportInfo, files: Mapping[str, bytes], tolerance: float) -> None:
        self.files = dict(files)
        self.info = info
        self.expected = {name: expected_outputs(model, info, content) for name, content in files.items()}
        special = {"probabilities": tolerance, "rectified": LEVEL, **dict.fromkeys(SURE, 0.0)}
        names = dict.fromkeys(name for outputs in self.expected.values() for name in outputs)
        self.allowed = {name: special.get(name, LOOSER * tolerance) for name in names}
        self._verify, self._predict = script("verify"), script("predict")

    def differences(self, path: Path) -> dict[str, float]:
        """The largest difference of each output of an exported file to what is expected."""
        run = self._pt2(path) if path.suffix == ".pt2" else self._onnx(path)
        worst: dict[str, float] = {}
        for name, content in self.files.items():
            photo = self._predict.read_photo(content, len(self.info.preprocessing.mean))
            for output, gap in self._verify.differences(run(photo[None]), self.expected[name]).items():
                worst[output] = max(worst.get(output, 0.0), gap)
        return worst

    def require_small(self, name: str, differences: Mapping[str, float]) -> None:
        """Refuse what is not as PyTorch."""
        large = [f"{output} {gap:.2g}" for output, gap in differences.items() if not gap <= self.allowed[output]]
        if large:
            raise ValueError(
                f"{name} does not answer as PyTorch does on {len(self.files)} images: the largest differences are "
                f"{', '.join(large)}, and {self.allowed['probabilities']:.0e} is allowed for probabilities "
                "(--tolerance); nothing was written"
            )

    def _onnx(self, path: Path) -> Any:
        session, _ = self._predict.open_model(path, threads=torch.get_num_threads())
        return lambda photos: self._predict.run(session, photos)

    def _pt2(self, path: Path) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the loader's own
            program = torch.export.load(path).module()

        def run(photos: NDArray[np.uint8]) -> dict[str, NDArray[Any]]:
            with torch.no_grad():
                return {name: values.numpy() for name, values in program(torch.from_numpy(photos)).items()}

        return run


@torch.no_grad()
def expected_outputs(model: TokenSTN, info: ExportInfo, content: bytes) -> dict[str, NDArray[Any]]:
    """What the exported model should say about an image file, in the names and shapes of its outputs, batch of one."""
    p = info.preprocessing
    photo = read_image(content, len(p.mean))
    fitted = fit(photo, p.size, p.resize, p.crop_share, p.interpolation)
    said = model(to_float(fitted.unsqueeze(0), p.mean, p.std), views=info.views or 1)
    found = {"probabilities": said.probabilities, **_sure_flags(said, info)}
    if info.primitives:
        place = fit_matrix((photo.shape[1], photo.shape[2]), p.size, p.resize, p.crop_share)
        mean, std = (torch.tensor(values)[:, None, None] for values in (p.mean, p.std))
        found |= {
            **{primitive.name: getattr(said.pose, primitive.name) for primitive in info.primitives},
            **{f"entropy_{name}": values for name, values in said.entropy.items()},
            **{f"spread_{name}": values for name, values in said.spread.items()},
            "photo_pose": pose_in_photo(said.pose.matrix, place),
            "view_weights": said.views.weights,
            "disagreement": said.disagreement,
            "rectified": ((said.rectified * std + mean) * 255).clamp(0, 255),
        }
    return {name: values.numpy() for name, values in found.items()}


def golden_files(folder: Path, check: Check) -> list[str]:
    """Write the smallest of the files as PNG, and what is expected of them; their names."""
    folder.mkdir()
    arrays: dict[str, Any] = {}
    channels = len(check.info.preprocessing.mean)
    pixels = {name: read_image(content, channels) for name, content in check.files.items()}
    chosen = sorted(pixels, key=lambda name: pixels[name].numel())[:GOLDEN_IMAGES]
    names = [f"{number}.png" for number in range(len(chosen))]
    for name, source in zip(names, chosen, strict=True):
        content = check.files[source]
        if not content.startswith(b"\x89PNG"):  # decoders of other formats differ by a grey level
            content = as_png(pixels[source])
        (folder / name).write_bytes(content)
        arrays |= {f"{name}/{output}": values for output, values in check.expected[source].items()}
    np.savez(folder / EXPECTED, **arrays)
    return names


def script(name: str) -> Any:
    """A script of the bundle as a module: what is checked is what will run."""
    folder = Path(__file__).parent / "bundle_files"
    found = importlib.util.spec_from_file_location(f"tokenstn_bundle_{name}", folder / f"{name}.py")
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def _sure_flags(said: Prediction, info: ExportInfo) -> dict[str, Tensor]:
    """The flags of one image, as far as they do not hang on a hair."""
    limits, entropy = info.thresholds, said.entropy or {}
    found: dict[str, tuple[Tensor, Tensor, float | None]] = {}
    if limits is not None and limits.of_pose is not None:
        found["pose_ambiguous"] = limits.of_pose(entropy), limits.of_pose.largest(entropy), limits.of_pose.threshold
    if limits is not None and limits.of_class is not None:
        disagreement = torch.zeros(1) if said.disagreement is None else said.disagreement
        doubts = doubts_of(said.probabilities, disagreement, entropy, info.multi_label)
        odds = limits.of_class.combination.log_odds(doubts)
        found["class_uncertain"] = limits.of_class(doubts), odds, limits.of_class.threshold
    return {
        name: flag
        for name, (flag, doubt, threshold) in found.items()
        if threshold is None or abs(doubt.item() - threshold) > SURE[name]
    }
