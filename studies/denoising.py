"""Denoise pictures with added noise by every objective and by classical methods, and score the results.

    python studies/denoising.py CLEAN --out DIR --sigma 25 --methods dcs,r2r,n2v,nlm,bm3d

CLEAN is a folder of clean pictures, such as BSD68. Noise of deviation sigma/255 is added once, without
clipping, and stored in floating-point TIFF files. Trainings are those of `dcs fit NOISY --objective METHOD`,
and see nothing but these files; denoised copies are those of `dcs denoise`. Finished methods are not run
again. bm3d needs `pip install bm3d`; bm3d and nlm are told the true sigma, the trainings are not.

A method LABEL=FOLDER scores pictures that another program made of DIR/noisy-SIGMA, such as
careamics=FOLDER for those of `studies/careamics_n2v.py`: TIFF files of the same names, and time.json.
"""

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tifffile
from PIL import Image
from skimage.metrics import structural_similarity

import dcs
from dcs import data, runs
from dcs.training import Facts, complete

Picture = np.ndarray


def read_clean(folder: Path) -> dict[str, Picture]:
    """Read clean pictures in grey, 0 to 1, by name."""
    files = sorted(path for path in folder.iterdir() if path.suffix.lower() in data.IMAGE_SUFFIXES)
    return {path.stem: np.asarray(Image.open(path).convert("L"), np.float32) / 255 for path in files}


def write_noisy(clean: dict[str, Picture], sigma: float, folder: Path) -> None:
    """Write noisy pictures, unless they are there."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, (name, picture) in enumerate(clean.items()):
        if not (folder / f"{name}.tif").exists():
            noisy = dcs.noise.add(picture[None], "gaussian", sigma / 255, seed=number)[0]
            tifffile.imwrite(folder / f"{name}.tif", noisy)


def trained(method: str, epochs: int | None, draws: int | None) -> Callable[[Path, Path], list[Picture]]:
    """Return a function that trains on noisy pictures and denoises them."""

    def denoise(noisy: Path, out: Path) -> list[Picture]:
        split = data.load(noisy).train
        config = complete({"objective": method, "max_epochs": epochs}, Facts.of(split))
        predictor = runs.fit(split, config, out, source=data.Source.of(noisy), resume=True)
        items = predictor.items_of(split)
        return [predictor.denoise_item(items, index, draws=draws) for index in range(len(items))]

    return denoise


def classical(method: str, sigma: float) -> Callable[[Path, Path], list[Picture]]:
    """Return a function that denoises pictures one by one, with the true sigma."""

    def denoise(noisy: Path, _: Path) -> list[Picture]:
        pictures = [tifffile.imread(path) for path in sorted(noisy.glob("*.tif"))]
        if method == "bm3d":
            import bm3d

            return [bm3d.bm3d(one, sigma / 255) for one in pictures]
        from skimage.restoration import denoise_nl_means

        how = {"h": 0.8 * sigma / 255, "sigma": sigma / 255, "patch_size": 5, "patch_distance": 6}
        return [denoise_nl_means(one, fast_mode=True, **how) for one in pictures]

    return denoise


def read_denoised(noisy: Path, folder: Path) -> tuple[list[Picture], float | None]:
    """Read pictures that were denoised elsewhere, and the seconds that this took, if they are known."""
    times = folder / "time.json"
    seconds = json.loads(times.read_text())["seconds"] if times.exists() else None
    return [tifffile.imread(folder / path.name) for path in sorted(noisy.glob("*.tif"))], seconds


def score(denoised: list[Picture], clean: dict[str, Picture]) -> dict[str, float]:
    """Return the mean PSNR in dB and the mean SSIM, for values clipped to 0 … 1."""
    pairs = [(np.clip(one, 0, 1), truth) for one, truth in zip(denoised, clean.values(), strict=True)]
    psnr = [-10 * math.log10(float(np.mean((one - truth) ** 2))) for one, truth in pairs]
    ssim = [structural_similarity(one, truth, data_range=1.0) for one, truth in pairs]
    return {"psnr": round(float(np.mean(psnr)), 3), "ssim": round(float(np.mean(ssim)), 4)}


def main() -> None:
    """Run what is missing, and print a line for each method."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("clean", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sigma", type=float, default=25, help="of the noise, in units of 1/255")
    parser.add_argument("--methods", default="dcs,r2r,n2v,nlm,bm3d", help="names, or LABEL=FOLDER")
    parser.add_argument("--epochs", type=int, help="of each training; the default of dcs fit without it")
    parser.add_argument(
        "--draws", type=int, help="predictions to average; the default of dcs denoise without it"
    )
    given = parser.parse_args()
    clean, noisy = read_clean(given.clean), given.out / f"noisy-{given.sigma:g}"
    write_noisy(clean, given.sigma, noisy)
    lines = given.out / "denoising.jsonl"
    done = [json.loads(line) for line in lines.read_text().splitlines()] if lines.exists() else []
    about = {"sigma": given.sigma, "pictures": len(clean), "epochs": given.epochs, "draws": given.draws}
    for name in given.methods.split(","):
        method, _, folder = name.partition("=")
        key = {"method": method, **about}
        if any(key.items() <= line.items() for line in done):
            continue
        if folder:
            denoised, seconds = read_denoised(noisy, Path(folder))
        else:
            known = method in ("bm3d", "nlm")
            run = classical(method, given.sigma) if known else trained(method, given.epochs, given.draws)
            start = time.perf_counter()
            denoised = run(noisy, given.out / f"{method}-{given.sigma:g}-{given.epochs or 'default'}")
            seconds = time.perf_counter() - start
        line = {**key, **score(denoised, clean), "seconds": seconds and round(seconds)}
        print(json.dumps(line), flush=True)
        with lines.open("a") as file:
            file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
