"""Figures 2 and 3 of the paper, drawn from the runs of Expt0."""

import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dcs import runs
from dcs._optional import require
from dcs.data import CATALOGUE
from dcs.experiments.experiment import Trial
from dcs.experiments.results import key_of, read_results
from dcs.experiments.runner import RUNS
from dcs.experiments.trial import load_data
from dcs.training import RunError
from dcs.training.checkpoint import write_atomically

NOISE = 0.3  # as in the paper's figures
IMAGES = 10


def check_figures(trials: Iterable[Trial]) -> None:
    """Raise if the figures could not be drawn, before anything is run.

    Args:
        trials: Trials that are finished, and those that will be.
    """
    pair(trials)
    require("matplotlib.figure", "figures", "drawing")
    require("umap", "clustering", "figure 2")


def draw_figures(out: Path, root: str | None = None) -> list[Path]:
    """Draw Figure 2 (maps of the features) and Figure 3 (denoised images) as PNG and PDF.

    Args:
        out: Directory of an Expt0 in which the linear protocol of cosine and dCS is finished.
        root: Folder of the data sets.
    """
    figure = require("matplotlib.figure", "figures", "drawing").Figure
    cosine, dcs = pair(map(key_of, read_results(out)))
    found = load_data(cosine, root)
    predictors = {trial.method: _predictor(trial, out) for trial in (cosine, dcs)}
    title = f"{dcs.dataset}, σ = {dcs.noise:g}, dcs ({dcs.variant}), "
    title += f"{dcs.epochs} epochs, {dcs.train_size:,} samples"
    written = _write(_maps(figure, predictors, found.train, title), out / "figure2")
    return written + _write(_images(figure, predictors, found.test, title), out / "figure3")


def _maps(figure: Any, predictors: dict[str, runs.Predictor], split: Any, title: str) -> Any:
    """Draw UMAP of the features in two dimensions, with the settings of Appendix D.2."""
    umap = require("umap", "clustering", "figure 2")
    drawn = figure(figsize=(11, 5), layout="constrained")
    drawn.suptitle(f"Features in two dimensions (UMAP): {title}")
    for axes, (name, predictor) in zip(drawn.subplots(1, 2), predictors.items(), strict=True):
        features = predictor.transform(split.x)
        settings = {"n_neighbors": 10, "min_dist": 0.0, "metric": "euclidean"}
        places = umap.UMAP(n_components=2, **settings, random_state=0, n_jobs=1).fit_transform(features)
        points = axes.scatter(*places.T, c=split.y.numpy(), s=2, cmap="tab10", linewidths=0, rasterized=True)
        axes.set(title=name, xticks=[], yticks=[])
        axes.legend(*points.legend_elements(), fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    return drawn


def _images(figure: Any, predictors: dict[str, runs.Predictor], split: Any, title: str) -> Any:
    """Draw rows: noisy, cosine, dCS, clean; predictions range from their smallest to their largest value."""
    noisy, clean = split.x[:IMAGES], split.clean[:IMAGES]
    with torch.no_grad():
        predicted = {name: _stretched(p.network(noisy)) for name, p in predictors.items()}
    rows = {"noisy": noisy, **predicted, "clean": clean}
    drawn = figure(figsize=(IMAGES, len(rows) + 0.5), layout="constrained")
    drawn.suptitle(title)
    for line, (name, images) in zip(drawn.subplots(len(rows), IMAGES), rows.items(), strict=True):
        for axes, image in zip(line, images, strict=True):
            axes.imshow(image.numpy(), cmap="gray", vmin=0, vmax=1)
            axes.set(xticks=[], yticks=[])
        line[0].set_ylabel(name)
    return drawn


def pair(trials: Iterable[Trial]) -> tuple[Trial, Trial]:
    """Return the first trial of cosine and of dCS, preferably with the paper's noise and trained longest."""
    grey = [name for name, entry in CATALOGUE.items() if len(entry.shape) == 2 and entry.shape[0] > 2]
    there = [t for t in trials if t.experiment == "expt0" and t.protocol == "linear" and t.dataset in grey]
    first = sorted(there, key=lambda t: (t.noise != NOISE, t.trial, -t.epochs, -t.train_size, t))
    for cosine in (t for t in first if t.method == "cosine"):
        alike = [
            t for t in there if t.method == "dcs" and t._replace(method="cosine", variant="both") == cosine
        ]
        if alike:
            return cosine, min(alike)  # "default" comes before "paper"
    raise RunError("the figures need the linear protocol of cosine and dcs in expt0, on grey images")


def _predictor(trial: Trial, out: Path) -> runs.Predictor:
    folder = out / RUNS / trial.name
    if not (folder / runs.MODEL).exists():
        raise RunError(f"{folder} is missing: copy {RUNS}/{trial.name} from where it was trained")
    return runs.load(folder)


def _stretched(images: Tensor) -> Tensor:
    low, high = images.flatten(1).aminmax(dim=1)
    return (images - low[:, None, None]) / (high - low).clamp(min=1e-12)[:, None, None]


def _write(drawn: Any, path: Path) -> list[Path]:
    paths = [path.with_suffix(suffix) for suffix in (".png", ".pdf")]
    for written in paths:
        content = io.BytesIO()
        drawn.savefig(content, format=written.suffix[1:], dpi=150)
        write_atomically(written, content.getvalue())
    return paths
