"""A model as files that run elsewhere: ONNX, or torch.export's .pt2, checked against PyTorch before anyone gets them.

Everything is written into a folder beside the one that was asked for, which is renamed when all is well.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import tempfile
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

import tokenstn
from tokenstn.inference import bundle
from tokenstn.inference.bundle_pictures import embedded_pictures
from tokenstn.inference.export_check import Check, golden_files
from tokenstn.inference.export_parts import MOVING_PHOTOS, Whole, cannot_be_traced, everything, parts_of, public_outputs
from tokenstn.models import Preprocessing, Thresholds, TokenSTN
from tokenstn.models.exported import FORMAT, ExportInfo
from tokenstn.models.folder import weights_of
from tokenstn.models.onnx import OnnxModel
from tokenstn.system.files import UNFINISHED, in_words, require_writable

FORMATS = ("onnx", "pt2")
TRACED_SIZE = (37, 53)  # of the photos that are traced: unlike any other number in a graph

Calibrate = Callable[[OnnxModel], Thresholds]


@dataclass(frozen=True)
class Exported:
    """What was written. differences: for each format, the largest one of each output, over ``images`` image files."""

    folder: Path
    info: ExportInfo
    images: int
    differences: dict[str, dict[str, float]]


def export_model(
    model: TokenSTN,
    out: Path,
    *,
    views: int = 1,
    formats: Collection[str] = ("onnx",),
    pictures: Mapping[str, bytes] | None = None,
    tolerance: float = 1e-4,
    calibrate: Calibrate | None = None,
    overwrite: bool = False,
) -> Exported:
    """Write a bundle; nothing is left behind where that fails, or where it does not answer as PyTorch does.

    Args:
        model: on the CPU, in float32. It is put into evaluation mode.
        views: how many poses the exported model looks at, in every call.
        formats: onnx, pt2, or both.
        pictures: image files by name, to check it on; those inside the package when None.
        tolerance: the largest difference in a probability; other numbers may be ten times as far away.
        calibrate: finds thresholds for the flags of the exported ONNX file, from answers of its own. Without it the
            model's thresholds are used if they are for such calls, else there are no flags.
        overwrite: replace a bundle that is there.
    """
    preprocessing = _require_exportable(model, views, formats, tolerance, calibrate)
    require_free(out, overwrite)
    files = embedded_pictures() if pictures is None else pictures
    if not files:
        raise ValueError("an export is checked on image files, and there are none: name some with --images")
    info = info_of(model, preprocessing, views)
    photos = photos_to_trace(preprocessing)
    with _folder_to_be(out) as folder:
        if "onnx" in formats:
            info = _write_onnx(folder / bundle.MODELS["onnx"], model, info, photos, calibrate)
        parts = parts_of(model, info)
        with torch.no_grad():
            known = everything(parts, photos)
        outputs = {name: known[name] for name in public_outputs(model, known)}
        if "pt2" in formats:
            _write_pt2(folder / bundle.MODELS["pt2"], Whole(parts, list(outputs)), photos)
        check = Check(model, info, files, tolerance)
        found = {name: check.differences(folder / bundle.MODELS[name]) for name in FORMATS if name in formats}
        for name, differences in found.items():
            check.require_small(bundle.MODELS[name], differences)
        golden = golden_files(folder / bundle.GOLDEN, check)
        if "onnx" in formats:
            bundle.copy_scripts(folder)
        bundle.write_description(
            folder,
            {
                **bundle.describe(info, outputs),
                "tolerance": check.allowed,
                "checked": {"images": len(check.files), "largest_difference": found},
                "golden": golden,
            },
            bundle.triton_config(info, outputs, out.resolve().name) if "onnx" in formats else None,
        )
    return Exported(out, info, len(check.files), found)


def require_free(out: Path, overwrite: bool) -> None:
    """Refuse a folder that holds anything but a bundle that may go, or that nothing can be written beside."""
    require_writable(out.parent)
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not (out / bundle.BUNDLE).is_file():
        raise FileExistsError(f"{out} holds something else than an exported model: choose another --out")
    if not overwrite:
        raise FileExistsError(f"{out} holds an exported model: choose another --out, or replace it, --overwrite=true")


def _require_exportable(
    model: TokenSTN, views: int, formats: Collection[str], tolerance: float, calibrate: Calibrate | None
) -> Preprocessing:
    """Refuse, with a sentence, what cannot be exported."""
    if isinstance(model, OnnxModel):
        raise ValueError("this is an exported file already: give the model folder that it was made from")
    if views < 1:
        raise ValueError(f"--views {views}: a number from 1 up; an exported model always looks at so many")
    if not formats or not set(formats) <= set(FORMATS):
        raise ValueError(f"formats {sorted(formats)}: onnx, pt2, or both")
    if calibrate is not None and "onnx" not in formats:
        raise ValueError("flags are calibrated with the answers of an ONNX file: export that format too")
    if not tolerance > 0:
        raise ValueError(f"--tolerance {tolerance}: above 0")
    preprocessing = model.preprocessing
    if preprocessing is None:
        raise ValueError(
            f"how images for this {type(model.classifier).__name__} are prepared is not known: make the model with "
            "preprocessing=tokenstn.Preprocessing(size, mean, std)"
        )
    if any(parameter.device.type != "cpu" or parameter.dtype != torch.float32 for parameter in model.parameters()):
        raise ValueError("a model is exported from the CPU, in float32: model.float().cpu()")
    model.eval()
    return preprocessing


def info_of(model: TokenSTN, preprocessing: Preprocessing, views: int) -> ExportInfo:
    """What an exported model will say about itself; its thresholds stay where they hold for such calls."""
    limits = model.thresholds
    if limits is not None and not limits.holds_for(model.call_settings(views, execution="onnx")):
        limits = None
    return ExportInfo(
        format=FORMAT,
        tokenstn=tokenstn.__version__,
        classifier=type(model.classifier).__name__,
        weights_sha256=hashlib.sha256(weights_of(model)).hexdigest(),
        classes=model.classes,
        multi_label=model.multi_label,
        primitives=model.primitives,
        posterior=model.posterior,
        poses=model.poses,
        views=None if model.bare else views,
        preprocessing=preprocessing,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        localizer_parameters=0 if model.localizer is None else sum(p.numel() for p in model.localizer.parameters()),
        thresholds=limits,
    )


def photos_to_trace(preprocessing: Preprocessing) -> Tensor:
    """Two photos of noise, uint8 ``(2, C, H, W)``."""
    shape = (2, len(preprocessing.mean), *TRACED_SIZE)
    return torch.randint(256, shape, generator=torch.Generator().manual_seed(0), dtype=torch.uint8)


def _write_onnx(
    path: Path, model: TokenSTN, info: ExportInfo, photos: Tensor, calibrate: Calibrate | None
) -> ExportInfo:
    """Where the flags are still to be calibrated the file is written without them first."""
    from tokenstn.inference.export_graph import OnnxWriter

    writer = OnnxWriter(model, photos)
    if calibrate is not None:
        writer.write(path, replace(info, thresholds=None))
        info = replace(info, thresholds=calibrate(OnnxModel(path)))
    writer.write(path, info)
    return info


def _write_pt2(path: Path, whole: Whole, photos: Tensor) -> None:
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # the exporter's own
        try:
            program = torch.export.export(whole.eval(), (photos,), dynamic_shapes={"photos": MOVING_PHOTOS})
        except RuntimeError as error:
            raise cannot_be_traced("pt2", error) from error
        content = io.BytesIO()  # torch's own writer says nothing of a full disk
        torch.export.save(program, content)
        path.write_bytes(content.getvalue())


@contextmanager
def _folder_to_be(out: Path) -> Iterator[Path]:
    """A folder that becomes ``out`` at the end, and disappears if it does not come to that."""
    out = out.absolute()  # "." cannot be moved by that name
    out.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{out.name}{UNFINISHED}-", dir=out.parent))
    try:
        with in_words(out):
            yield folder
        folder.chmod(0o755)  # what mkdtemp makes is for its owner alone
        before = folder.with_name(f"{folder.name}-before")
        if out.exists():
            out.rename(before)  # it goes when the new one is in its place
        folder.rename(out)
        shutil.rmtree(before, ignore_errors=True)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
