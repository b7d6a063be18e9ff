"""``tokenstn export``: a model as files that run without torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tokenstn.verbs.sources import ClassifierSource, ImageSource

if TYPE_CHECKING:
    from tokenstn.models.exported import ExportInfo

CALIBRATED = 2000  # images that the flags are calibrated on, at most


@dataclass(frozen=True)
class ExportResult:
    """Where the bundle is, what it says about itself, and for each format the largest difference of each output."""

    out: Path
    info: ExportInfo
    differences: dict[str, dict[str, float]]


def export(
    model: ClassifierSource,
    out: str | None = None,
    views: int = 1,
    format: Literal["onnx", "pt2", "both"] = "onnx",
    images: ImageSource | None = None,
    limit: int = 16,
    data: ImageSource | None = None,
    split: Literal["train", "val", "test", "all"] = "val",
    tolerance: float = 1e-4,
    overwrite: bool = False,
    seed: int = 0,
    progress: bool = True,
) -> ExportResult:
    """Export a model for other machines: one ONNX file from photo to answer, with a script that needs no torch.

    Example: tokenstn export runs/photos --views 4 --data photos/ --out photos-onnx

    Args:
        model: a run folder or a model folder.
        out: the folder to write; export in the run folder, or runs/export, when left out.
        views: how many poses the exported model looks at, always.
        format: onnx, pt2 (torch.export), or both.
        images: photos to check the exported files on against PyTorch; those of data, or a few inside the package, when
            left out. Some of them are kept in the folder, for verify.py.
        limit: at most so many photos to check on.
        data: labelled images that the model was not trained on, to calibrate its two flags for so many views; without
            them the exported model has no flags.
        split: of the data. Where they have none, what training keeps apart.
        tolerance: the largest difference in a probability; beyond it nothing is written.
        overwrite: replace an exported model that is there.
        seed: of everything that is drawn.
        progress: show a progress bar.
    """
    from tokenstn.verbs.extras import require_extra

    require_extra("export", "onnx", "onnxscript", "onnxruntime")

    import tokenstn
    from tokenstn.inference.export import FORMATS, export_model, require_free
    from tokenstn.models import TokenSTN
    from tokenstn.verbs import evaluation_steps as steps
    from tokenstn.verbs import export_steps
    from tokenstn.verbs.models import place_of
    from tokenstn.verbs.speech import say

    console = steps.console()
    place = place_of(model)
    folder = Path(out) if out is not None else (place.run or Path("runs")) / "export"
    require_free(folder, overwrite)
    if not isinstance(model, TokenSTN) and place.folder is None:
        raise ValueError(f"{place.name}: give a run folder or a model folder; tokenstn convert and train make them")
    found = model if isinstance(model, TokenSTN) else tokenstn.load(str(place.folder))
    chosen = None if data is None else steps.choose_images(data, split, place, seed)
    say(console, "model", f"{place.name}: {steps.model_in_words(found)}")
    pictures = export_steps.pictures(images, chosen, limit, seed)
    calibrate = None
    if chosen is not None:
        calibrate = export_steps.calibration(found, place.name, chosen, views, CALIBRATED, seed, progress, console)
    formats = FORMATS if format == "both" else (format,)
    made = export_model(
        found,
        folder,
        views=views,
        formats=formats,
        pictures=pictures,
        tolerance=tolerance,
        calibrate=calibrate,
        overwrite=overwrite,
    )
    export_steps.say_what_was_made(console, found, made, views, tolerance)
    return ExportResult(folder, made.info, made.differences)
