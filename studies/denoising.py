"""Denoise pictures by every objective and by classical methods, and score the results.

    python studies/denoising.py run CLEAN --out DIR --sigma 25 --methods dcs,r2r,n2v,nlm,bm3d
    python studies/denoising.py run CLEAN --out DIR --noisy NOISY
    python studies/denoising.py table DIR/denoising.jsonl

CLEAN is a folder of clean pictures, such as BSD68. Noise of deviation sigma/255 is added once, without
clipping, and stored in floating-point TIFF files; or NOISY holds pictures with real noise, in the same
order. Trainings are those of `dcs fit NOISY --objective METHOD`, and see nothing but the noisy files;
denoised copies are those of `dcs denoise`. Finished methods are not run again. bm3d needs `pip install bm3d`;
bm3d and nlm are told the true sigma of added noise, the trainings are not. For real noise they use an
estimate (`skimage.restoration.estimate_sigma`), and offset and contrast of each picture are matched to its
reference, whose exposure may differ, before it is scored.

A method LABEL=FOLDER scores pictures that another program made of the noisy ones, such as careamics=FOLDER
for those of `studies/careamics_n2v.py`: TIFF files of the same names, and time.json.
"""

import argparse
import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tifffile
from PIL import Image
from skimage.metrics import structural_similarity
from skimage.restoration import denoise_nl_means, estimate_sigma

import dcs
from dcs import data, runs
from dcs.training import Facts, complete
from records import Line, Records, Stopwatch, command, grouped, markdown

Picture = np.ndarray
Denoiser = Callable[[Path, Path], list[Picture]]
_CLASSICAL = ("nlm", "bm3d")
_PUBLISHED = {  # mean PSNR on BSD68
    "Noise2Void (its own notebook)": {25: 27.81},
    "BM3D": {25: 28.57, 50: 25.62},
    "DnCNN, trained on clean pictures": {25: 29.23, 50: 26.23},
}


def pictures_in(folder: Path) -> dict[str, Path]:
    """Return the pictures in a folder, by name."""
    files = sorted(path for path in folder.iterdir() if path.suffix.lower() in data.IMAGE_SUFFIXES)
    return {path.stem: path for path in files}


def read(path: Path) -> Picture:
    """Read a picture: (h, w) or (h, w, 3) from 0 to 1, or floating point as it is."""
    if path.suffix.lower() in (".tif", ".tiff"):
        found = tifffile.imread(path)
        return found.astype(np.float32) / (np.iinfo(found.dtype).max if found.dtype.kind == "u" else 1)
    with Image.open(path) as image:
        return np.asarray(image, np.float32) / 255


def write_noisy(clean: dict[str, Path], sigma: float, folder: Path) -> None:
    """Write noisy pictures, unless they are there."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, (name, path) in enumerate(clean.items()):
        if not (folder / f"{name}.tif").exists():
            noisy = dcs.noise.add(read(path)[None], "gaussian", sigma / 255, seed=number)[0]
            tifffile.imwrite(folder / f"{name}.tif", noisy)


def trained(method: str, epochs: int | None, draws: int | None) -> Denoiser:
    """Return a function that trains on noisy pictures and denoises them."""

    def denoise(noisy: Path, out: Path) -> list[Picture]:
        split = data.load(noisy).train
        config = complete({"objective": method, "max_epochs": epochs}, Facts.of(split))
        predictor = runs.fit(split, config, out, source=data.Source.of(noisy), resume=True)
        items = predictor.items_of(split)
        found = [predictor.denoise_item(items, index, draws=draws) for index in range(len(items))]
        return [np.moveaxis(one, 0, -1) if one.ndim == 3 else one for one in found]

    return denoise


def classical(method: str, sigma: float | None) -> Denoiser:
    """Return a function that denoises pictures one by one, with the true sigma or an estimate."""

    def one(picture: Picture) -> Picture:
        axis = -1 if picture.ndim == 3 else None
        level = estimate_sigma(picture, channel_axis=axis, average_sigmas=True) if sigma is None else sigma
        if method == "bm3d":
            import bm3d

            found: Picture = (bm3d.bm3d if axis is None else bm3d.bm3d_rgb)(picture, level)
            return found
        how = {"h": 0.8 * level, "sigma": level, "patch_size": 5, "patch_distance": 6}
        return np.asarray(denoise_nl_means(picture, fast_mode=True, channel_axis=axis, **how))

    return lambda noisy, _: [one(read(path)) for path in pictures_in(noisy).values()]


def read_denoised(noisy: Path, folder: Path) -> tuple[list[Picture], dict[str, float]]:
    """Read pictures that were denoised elsewhere, and the times that this took, if they are known."""
    file = folder / "time.json"
    facts = json.loads(file.read_text()) if file.exists() else {}
    times = {key: facts[key] for key in ("seconds", "cpu_seconds") if key in facts}
    return [read(folder / f"{name}.tif") for name in pictures_in(noisy)], times


def score(denoised: list[Picture], clean: list[Picture], matched: bool) -> dict[str, float]:
    """Return the mean PSNR in dB and the mean SSIM, for values clipped to 0 … 1."""
    psnr, ssim = [], []
    for found, truth in zip(denoised, clean, strict=True):
        if matched:
            slope, offset = np.polyfit(found.ravel().astype(np.float64), truth.ravel(), 1)
            found = slope * found + offset
        found = np.clip(found, 0, 1).astype(np.float32)
        axis = -1 if truth.ndim == 3 else None
        psnr.append(-10 * math.log10(float(np.mean((found - truth) ** 2))))
        ssim.append(structural_similarity(found, truth, data_range=1.0, channel_axis=axis))
    return {"psnr": round(float(np.mean(psnr)), 3), "ssim": round(float(np.mean(ssim)), 4)}


def run(given: argparse.Namespace) -> None:
    """Run what is missing, and print a line for each method."""
    clean, noisy = pictures_in(given.clean), given.noisy
    if noisy is None:
        noisy = given.out / f"noisy-{given.sigma:g}"
        write_noisy(clean, given.sigma, noisy)
    truth = [read(path) for path in clean.values()]
    sigma = None if given.noisy else given.sigma
    records = Records(given.out / "denoising.jsonl")
    about = {"data": given.name or given.clean.name, "sigma": sigma, "pictures": len(truth)}
    about |= {"epochs": given.epochs, "draws": given.draws}
    for name in given.methods.split(","):
        method, _, folder = name.partition("=")
        key: Line = {"method": method, **about}
        if records.has(key):
            continue
        watch, times = Stopwatch(), {}
        if method == "noisy":
            denoised = [read(path) for path in pictures_in(noisy).values()]
        elif folder:
            denoised, times = read_denoised(noisy, Path(folder))
        else:
            level = None if sigma is None else sigma / 255
            by = (
                classical(method, level)
                if method in _CLASSICAL
                else trained(method, given.epochs, given.draws)
            )
            denoised = by(noisy, given.out / f"{method}-{noisy.name}-{given.epochs or 'default'}")
            times = watch.times()
        records.add({**key, **score(denoised, truth, sigma is None), **times})


def table(lines: list[Line]) -> str:
    """Return tables of all results, one for each set of pictures and noise, in Markdown."""
    header = ["method", "epochs", "draws", "PSNR in dB", "SSIM", "CPU minutes"]
    parts = []
    for (name, sigma), some in grouped(lines, "data", "sigma").items():
        noise = "real noise" if sigma is None else f"σ = {sigma:g}/255"
        rows = []
        for line in sorted(some, key=lambda line: -line["psnr"]):
            own = line["method"] in (*_CLASSICAL, "noisy", "careamics")
            epochs, draws = ("–" if own else line[key] or "default" for key in ("epochs", "draws"))
            minutes = f"{line['cpu_seconds'] / 60:.1f}" if "cpu_seconds" in line else "–"
            rows.append(
                [line["method"], epochs, draws, f"{line['psnr']:.2f}", f"{line['ssim']:.4f}", minutes]
            )
        if name == "BSD68":
            known = {of: found[sigma] for of, found in _PUBLISHED.items() if sigma in found}
            rows += [[f"*{of}, published*", "–", "–", f"{psnr:.2f}", "–", "–"] for of, psnr in known.items()]
        title = f"### {name}, {some[0]['pictures']} pictures, {noise}"
        parts.append("\n".join([title, "", *markdown(header, rows)]))
    return "\n\n".join(parts)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `run`."""
    parser.add_argument("clean", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sigma", type=float, default=25, help="of the noise, in units of 1/255")
    parser.add_argument("--noisy", type=Path, help="folder of pictures with real noise")
    parser.add_argument("--name", help="of the data, in tables")
    parser.add_argument("--methods", default="noisy,dcs,r2r,n2v,nlm,bm3d", help="names, or LABEL=FOLDER")
    parser.add_argument("--epochs", type=int, help="of each training; the default of dcs fit without it")
    parser.add_argument(
        "--draws", type=int, help="predictions to average; the default of dcs denoise without it"
    )


if __name__ == "__main__":
    command(__doc__, add_options, run, table)
