"""Check this bundle where it runs: the images in ``golden/`` have to get the answers that PyTorch gave at the export.

    python verify.py

Needs numpy, pillow and onnxruntime, and nothing else. Exit code 0 if all is well, 1 if not.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent


def differences(found: dict[str, Any], expected: dict[str, Any]) -> dict[str, float]:
    """The largest difference in each output; angles are compared around the circle."""
    apart = {}
    for name, wanted in expected.items():
        gap = np.asarray(found[name], dtype=np.float64) - np.asarray(wanted, dtype=np.float64)
        if name == "rotation":
            gap = (gap + np.pi) % (2 * np.pi) - np.pi
        apart[name] = float(np.nan_to_num(np.abs(gap), nan=np.inf).max())  # no number is as far as can be
    return apart


def main() -> int:
    """Compare, and say for each output how far it is from what was expected."""
    import predict  # pyright: ignore[reportMissingImports] - the script beside this one

    bundle = json.loads((HERE / "bundle.json").read_text(encoding="utf-8"))
    there = {name: HERE / name for name in bundle["files"] if (HERE / name).is_file()}  # what is not needed may go
    changed = [n for n, p in there.items() if hashlib.sha256(p.read_bytes()).hexdigest() != bundle["files"][n]]
    for name in changed:
        print(f"{name} is not what was exported")
    if changed:
        return 1
    session, about = predict.open_model(HERE / predict.MODEL, threads=1)
    channels = len(about["preprocessing"]["mean"])
    expected = np.load(HERE / "golden" / "expected.npz")
    worst: dict[str, float] = {}
    for image in bundle["golden"]:
        photo = predict.read_photo(HERE / "golden" / image, channels)
        wanted = {key.split("/", 1)[1]: expected[key] for key in expected.files if key.startswith(f"{image}/")}
        for name, gap in differences(predict.run(session, photo[None]), wanted).items():
            worst[name] = max(worst.get(name, 0.0), gap)
    allowed = bundle["tolerance"]
    for name, gap in worst.items():
        print(f"{name:<24}{gap:10.2e}   allowed {allowed[name]:.0e}{'' if gap <= allowed[name] else '   TOO FAR'}")
    wrong = [name for name, gap in worst.items() if not gap <= allowed[name]]
    print("this bundle answers as it should" if not wrong else f"too far from PyTorch: {', '.join(wrong)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
