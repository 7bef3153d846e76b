"""Learn features from noisy pictures of real size, by every objective in equal time, and classify by them.

    python studies/features.py run PICTURES --out DIR --sigma 50 --minutes 10
    python studies/features.py table DIR/features.jsonl

PICTURES is a folder of labelled pictures: sub-folders named by class, or files named CLASS_NUMBER. They are
made grey, every fourth is for testing, and noise of deviation sigma/255 is added once, without clipping.
Trainings are those of `dcs fit --objective METHOD` on the noisy training pictures, on windows of 64 x 64,
with as many epochs as fit in the minutes, at least one; a ResNet has 16 channels in place of 64. `untrained`
is the network of `dcs` as it begins, and `pca` has 128 principal components of pictures made 32 x 32. All are
scored by the linear protocol. Finished methods are not run again.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import tifffile
import torch
from PIL import Image
from sklearn.decomposition import PCA

import dcs
from dcs import data, evaluation, runs
from dcs.training import Facts, complete
from records import Line, Records, Stopwatch, command, grouped, markdown

_SIDE, _COMPONENTS, _WINDOW = 32, 128, (64, 64)


def class_of(path: Path, root: Path) -> str:
    """Return the class of a picture, by its folder or by its name."""
    return path.parent.name if path.parent != root else path.stem.rpartition("_")[0]


def write_noisy(pictures: Path, sigma: float, out: Path) -> None:
    """Write noisy pictures to out/train/CLASS and out/test/CLASS, unless they are there."""
    files = sorted(path for path in pictures.rglob("*") if path.suffix.lower() in data.IMAGE_SUFFIXES)
    for number, path in enumerate(files):
        part = "train" if number % 4 else "test"
        target = out / part / class_of(path, pictures) / f"{path.stem}.tif"
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            with Image.open(path) as image:
                clean = np.asarray(image.convert("L"), np.float32) / 255
            tifffile.imwrite(target, dcs.noise.add(clean[None], "gaussian", sigma / 255, seed=number)[0])


def learned(method: str, split: data.Split, minutes: float, out: Path) -> tuple[runs.Predictor, int]:
    """Train for about so many minutes, and return the predictor and the number of epochs."""
    settings: dict[str, Any] = {"objective": "dcs" if method == "untrained" else method, "window": _WINDOW}
    if method.startswith("simsiam"):  # with all its channels, a ResNet takes hours for an epoch on two cores
        settings["network_options"] = {"width": 16}
    once = complete({**settings, "max_epochs": 1}, Facts.of(split))
    epochs = 0
    if method != "untrained":
        epochs = max(1, round(60 * minutes / runs.estimate(split, once)["about_seconds"]))
    config = complete({**settings, "max_epochs": epochs}, Facts.of(split))
    if (out / runs.CONFIG).is_file():  # begun before: the number of epochs is fixed
        config = runs.read_record(out).training
    return runs.fit(split, config, out, resume=True), config.max_epochs


def downsized(split: data.Split) -> np.ndarray:
    """Return pictures made 32 x 32, flat."""
    x = torch.as_tensor(split.read(range(len(split))))
    return torch.nn.functional.adaptive_avg_pool2d(x[:, None], _SIDE).flatten(1).numpy()


def run(given: argparse.Namespace) -> None:
    """Run what is missing, and print a line for each method."""
    noisy = given.out / f"noisy-{given.sigma:g}"
    write_noisy(given.pictures, given.sigma, noisy)
    loaded = data.load(noisy)
    train, test = loaded.train, loaded.test
    assert test is not None  # noqa: S101
    records = Records(given.out / "features.jsonl")
    about = {"data": given.name or given.pictures.name, "sigma": given.sigma, "minutes": given.minutes}
    about |= {"train": len(train), "test": len(test), "classes": len(loaded.classes)}
    for method in given.methods.split(","):
        key: Line = {"method": method, **about}
        if records.has(key):
            continue
        watch, epochs = Stopwatch(), None
        if method == "pca":
            model = PCA(_COMPONENTS, random_state=0).fit(downsized(train))
            features = [model.transform(downsized(part)) for part in (train, test)]
        else:
            out = given.out / f"{method}-{given.sigma:g}-{given.minutes:g}"
            predictor, epochs = learned(method, train, given.minutes, out)
            features = [predictor.transform(part) for part in (train, test)]
        pairs = [(found, part.y) for found, part in zip(features, (train, test), strict=True)]
        accuracy = evaluation.linear(*pairs).score
        line = {"accuracy": round(accuracy, 2), "features": features[0].shape[1], "epochs": epochs}
        records.add({**key, **line, **watch.times()})


def table(lines: list[Line]) -> str:
    """Return tables of all results, one for each set of pictures, noise and time, in Markdown."""
    header = ["features", "number", "linear accuracy", "epochs", "CPU minutes"]
    parts = []
    for (name, sigma, minutes), some in grouped(lines, "data", "sigma", "minutes").items():
        rows = []
        for line in sorted(some, key=lambda line: -line["accuracy"]):
            epochs = "–" if line["epochs"] is None else line["epochs"]
            took = f"{line['cpu_seconds'] / 60:.1f}"
            rows.append([line["method"], line["features"], f"{line['accuracy']:.1f}", epochs, took])
        title = f"### {name}, σ = {sigma:g}/255, trainings of about {minutes:g} minutes"
        parts.append("\n".join([title, "", *markdown(header, rows)]))
    return "\n\n".join(parts)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `run`."""
    parser.add_argument("pictures", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sigma", type=float, default=50, help="of the noise, in units of 1/255")
    parser.add_argument("--name", help="of the data, in tables")
    parser.add_argument("--methods", default="pca,untrained,dcs,r2r,simsiam,simsiam-dcs")
    parser.add_argument("--minutes", type=float, default=10, help="of each training")


if __name__ == "__main__":
    command(__doc__, add_options, run, table)
