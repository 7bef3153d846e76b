"""Denoise pictures by CAREamics' Noise2Void, trained on these pictures for a given time.

    python studies/careamics_n2v.py NOISY --out DENOISED --minutes 15

NOISY is a folder of grey TIFF files of at least 64 x 64 pixels; TIFF files of the same names are written to
DENOISED, and what the training took to DENOISED/time.json. `studies/denoising.py --methods
careamics=DENOISED` scores them. All settings are CAREamics' defaults, but for the patches (64 x 64), the
batch size (16), the seed and the end of the training.

CAREamics has an environment of its own, which `make .venv-careamics/.installed` makes: run this script with
.venv-careamics/bin/python. Its torchvision is left out, which would replace torch by another version, and
which Noise2Void does not use.
"""

import argparse
import importlib.util
import json
import os
import sys
import time
import types
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import tifffile
import torch

PATCH, BATCH, TILE = (64, 64), 16, (256, 256)
PACKAGES = ("careamics", "torch", "lightning", "numpy")


def allow_missing_torchvision() -> None:
    """Put empty modules in the place of torchvision, which CAREamics imports for other methods."""
    import torchmetrics  # noqa: F401  (first, since it looks whether torchvision is there)

    if importlib.util.find_spec("torchvision") is None:
        for name in ("torchvision", "torchvision.transforms", "torchvision.transforms.functional"):
            sys.modules[name] = types.ModuleType(name)
        sys.modules["torchvision"].__version__ = "none"  # type: ignore[attr-defined]


def make_careamist(work_dir: Path, minutes: float, seed: int) -> Any:
    """Make CAREamics' model and trainer, which stops after so many minutes."""
    allow_missing_torchvision()
    from careamics import CAREamist
    from careamics.config import create_advanced_n2v_config

    config = create_advanced_n2v_config(
        experiment_name="n2v",
        data_type="tiff",
        axes="YX",
        patch_size=PATCH,
        batch_size=BATCH,
        num_epochs=-1,
        trainer_params={"max_time": {"minutes": minutes}},
        seed=seed,
    )
    return CAREamist(config, work_dir=work_dir, enable_progress_bar=False)


def main() -> None:
    """Train, denoise, and write down what it took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("noisy", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=15, help="wall time of the training")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if importlib.util.find_spec("careamics") is None:
        parser.error(f"careamics is not installed for {sys.executable}: see the first lines of {__file__}")
    files = sorted(path for path in given.noisy.iterdir() if path.suffix.lower() in (".tif", ".tiff"))
    if not files:
        parser.error(f"no TIFF files in {given.noisy}")
    given.out.mkdir(parents=True, exist_ok=True)

    careamist = make_careamist(given.out / "run", given.minutes, given.seed)
    start = time.perf_counter()
    careamist.train(train_data=files)
    trained = time.perf_counter()
    # By itself, CAREamics would predict with the weights that it stores every ten epochs.
    checkpoint = given.out / "run" / "final.ckpt"
    careamist.trainer.save_checkpoint(checkpoint)
    pictures, sources = careamist.predict(files, tile_size=TILE, checkpoint=checkpoint)
    for picture, source in zip(pictures, sources, strict=True):
        tifffile.imwrite(given.out / Path(source).name, np.asarray(picture, np.float32))
    facts = {
        "seconds": round(time.perf_counter() - start, 1),
        "cpu_seconds": round(sum(os.times()[:4]), 1),
        "training_seconds": round(trained - start, 1),
        "steps": careamist.trainer.global_step,
        "parameters": sum(one.numel() for one in careamist.model.parameters()),
        "threads": torch.get_num_threads(),
        "versions": {name: version(name) for name in PACKAGES},
    }
    (given.out / "time.json").write_text(json.dumps(facts, indent=1) + "\n")
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
