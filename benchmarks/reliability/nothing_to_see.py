"""Images that show nothing, pixels that are no numbers, and models whose answers are none."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from pathlib import Path

import torch
from PIL import Image
from record import Drill
from safetensors.torch import load_file, save_file
from small_model import small_model
from torch import Tensor

import tokenstn
from tokenstn.apps.embedded import embedded_model
from tokenstn.data import read_mnist_mini, to_float
from tokenstn.models import TokenSTN

LEVELS = 256
SEVERAL = 4  # images in a batch, of which one is broken


def blank_images(drill: Drill, folder: Path) -> None:
    """Constant images at every grey level, and digits that are overexposed more and more."""
    model = tokenstn.load(embedded_model())
    levels = torch.arange(LEVELS, dtype=torch.uint8)[:, None, None, None].expand(-1, 1, 28, 28)
    noisy = (levels.int() + torch.randint(0, 2, levels.shape, generator=torch.Generator().manual_seed(0))).clamp(0, 255)
    wrong, sure = [], 0
    for name, pixels in (("constant", levels), ("constant but for the last bit", noisy.to(torch.uint8))):
        p = _answer(model, pixels)
        assert p.pose_ambiguous is not None and p.class_uncertain is not None
        if not _is_defined(p.probabilities) or not bool((p.pose_ambiguous & p.class_uncertain).all()):
            wrong.append(name)
        sure += int((p.probabilities.amax(1) > 0.8).sum())
    drill.found(
        "an image that shows nothing (black, white or any one colour) gets a defined answer with both flags raised",
        f"{2 * LEVELS} images of every grey level: {len(wrong)} kinds without; the classifier by itself is more than "
        f"80 % sure of a digit in {sure} of them",
        not wrong,
    )
    folder.mkdir(parents=True)
    for level in (0, 1, 127, 254, 255):
        Image.new("L", (40, 30), level).save(folder / f"{level:03}.png")
    tokenstn.predict(str(embedded_model()), str(folder), out=str(folder / "out"), accelerator="cpu", progress=False)
    import pyarrow.parquet as pq  # not needed for the rows of a GPU, where it may be missing

    rows = pq.read_table(folder / "out" / "predictions").to_pylist()
    flagged = sum(row["pose_ambiguous"] and row["class_uncertain"] for row in rows)
    drill.found("tokenstn predict says so, too", f"{flagged} of {len(rows)} files flagged", flagged == len(rows) == 5)
    digits = read_mnist_mini()
    assert isinstance(digits.items, Tensor)
    pixels, said, defined = digits.items[digits.split("test")], [], True
    for gain in (1, 4, 16, 64, 255):
        p = _answer(model, (pixels.float() * gain).clamp(0, 255).to(torch.uint8))
        assert p.class_uncertain is not None
        defined = defined and _is_defined(p.probabilities)
        said.append(f"{p.class_uncertain.float().mean():.1%} at gain {gain}")
    drill.found(
        "images that are saturated but show something get a defined answer, flagged as any other",
        f"{len(pixels):,} digits, overexposed: class_uncertain on {', '.join(said)}",
        defined,
    )


def broken_pixels(drill: Drill, device: str = "cpu") -> None:
    """One image of several with a NaN or an infinity in it."""
    model, names = tokenstn.load(embedded_model()).to(device), ("nan", "inf", "-inf")
    ways: dict[str, Callable[[Tensor], Tensor]] = {
        "in a compiled graph": _compiled(model),
        "inside a training loop (localize, classify)": lambda x: _without_looking(model, x),
    }
    if device == "cpu":
        _refused_pixels(drill, model, names)
    else:
        ways = {"on a GPU": lambda x: model(x.to(device), views=4).probabilities.cpu()}
    for where, way in ways.items():
        wrong = []
        with torch.no_grad():
            clean = way(_with(0.0))
            for name in names:
                found = way(_with(float(name)))
                others = [place for place in range(SEVERAL) if place != 1]
                same = torch.allclose(found[others], clean[others], atol=1e-5)
                wrong += [] if bool(found[1].isnan().all()) and same else [name]
        drill.found(
            f"where looking would make a GPU wait, the answer for that image alone is not a number: {where}",
            f"{len(names)} batches of {SEVERAL} images: {len(wrong)} otherwise",
            not wrong,
        )


def _refused_pixels(drill: Drill, model: TokenSTN, names: tuple[str, ...]) -> None:
    refused = 0
    for name in names:
        try:
            model(_with(float(name)), views=1)
        except ValueError as error:
            refused += "images [1] of the batch have pixels that are not finite" in str(error)
    drill.found(
        "pixels that are not finite are refused on the CPU, with the places of their images",
        f"{refused} of {len(names)} batches refused",
        refused == len(names),
    )


def broken_answers(drill: Drill, folder: Path) -> None:
    """A model whose weights are finite, and its answers not: every verb refuses it."""
    photos, model = folder / "photos", small_model()
    photos.mkdir(parents=True)
    for index in range(4):
        Image.effect_noise((40, 30), 40 + index).convert("RGB").save(photos / f"{index}.png")
    model.save_pretrained(folder / "model")
    _scale(folder / "model" / "model.safetensors", 1e30)
    place, images = str(folder / "model"), str(photos)
    quiet = {"progress": False, "accelerator": "cpu"}
    tokenstn.predict(place, images, out=str(folder / "predict"), **quiet)
    rejected = _rejected(folder / "predict")
    tokenstn.rectify(place, images, out=str(folder / "rectify"), **quiet)
    rejected += _rejected(folder / "rectify")
    drill.found(
        "answers that are not numbers: predict and rectify list the image and the reason in rejected.csv",
        f"{len(rejected)} of 8 images listed; “{rejected[0][1] if rejected else ''}”",
        len(rejected) == 8 and all("not a number" in reason for _, reason in rejected),
    )
    table = str(photos / "list.csv")
    lines = "".join(f"{index}.png,{('ash', 'birch')[index % 2]},val\n" for index in range(4))
    Path(table).write_text(f"path,label,split\n{lines}", encoding="utf-8")
    verbs: dict[str, Callable[[], object]] = {
        "evaluate": lambda: tokenstn.evaluate(
            place, data=table, split="all", labels=False, out=str(folder / "e"), cost=False, **quiet
        ),
        "diagnose": lambda: tokenstn.diagnose(place, table, labels=False, **quiet),
        "export": lambda: tokenstn.export(place, out=str(folder / "x"), progress=False),
        "the server's answer": lambda: _described(tokenstn.load(place)),
        "train": lambda: tokenstn.train(
            table, classifier=place, out=str(folder / "t"), labels=False, devices=1, **quiet
        ),
    }
    refused = {}
    for name, verb in verbs.items():
        try:
            verb()
        except ValueError as error:
            refused[name] = str(error)
    _scale(folder / "model" / "model.safetensors", math.inf)
    with torch.no_grad():
        model.classifier.get_parameter("head.weight").fill_(math.nan)
    for name, keep in {
        "load": lambda: tokenstn.load(place),
        "save": lambda: model.save_pretrained(folder / "n"),
    }.items():
        try:
            keep()
        except ValueError as error:
            refused[name] = str(error)
    wanted = [*verbs, "load", "save"]
    drill.found(
        "answers that are not numbers, and weights that are not finite, are refused by every other verb",
        f"{', '.join(refused)}: {len(refused)} of {len(wanted)}; nothing was written",
        len(refused) == len(wanted) and not any((folder / name).exists() for name in ("x", "n", "e", "t")),
    )


def _scale(path: Path, factor: float) -> None:
    """Make the product of two layers larger than float32 can hold, or one of them infinite."""
    weights = load_file(path)
    for name in ("norm", "head"):
        weights[f"backbone.classifier.{name}.weight"] *= factor
    save_file(weights, path)


def _answer(model: TokenSTN, pixels: Tensor) -> tokenstn.Prediction:
    assert model.preprocessing is not None
    with torch.no_grad():
        return model(to_float(pixels, model.preprocessing.mean, model.preprocessing.std))


def _is_defined(probabilities: Tensor) -> bool:
    return bool(probabilities.isfinite().all()) and bool(((probabilities.sum(1) - 1).abs() < 1e-4).all())


def _with(value: float) -> Tensor:
    images = torch.randn(SEVERAL, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    images[1, 0, 5, 7] = value
    return images


def _compiled(model: TokenSTN) -> Callable[[Tensor], Tensor]:
    made = torch.compile(model, fullgraph=True)
    return lambda images: made(images, views=4).probabilities


def _without_looking(model: TokenSTN, images: Tensor) -> Tensor:
    return model.classify(images, model.localize(images), views=4).probabilities


def _described(model: TokenSTN) -> object:
    from tokenstn.apps.answer import describe, look

    assert model.preprocessing is not None
    prediction = look(model, torch.zeros(1, 3, 32, 32, dtype=torch.uint8), model.preprocessing)
    return describe(model, prediction, [(32, 32)], model.preprocessing)


def _rejected(folder: Path) -> list[list[str]]:
    with (folder / "rejected.csv").open(encoding="utf-8") as file:
        return list(csv.reader(file))[1:]
