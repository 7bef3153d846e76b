"""What a page shows of a run's samples: strips, a map of the features, recordings to hear."""

import hashlib
import os
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cosine_similarity

from dcs._progress import progress
from dcs.data import Split, valid_entries
from dcs.estimator import DenoisingEncoder
from dcs.noise import GaussianSplit
from dcs.objectives import ChosenViews, DenoisingCosine, SelfSupervised
from dcs.report._layout import cluster, lay_out
from dcs.report._pictures import Painter, Pixels, Sheets, find_painter, pack
from dcs.report._sounds import RECORDINGS, as_wav, heard
from dcs.report._source import Shown
from dcs.training import RunError

STRIP = 12  # samples
_COMPARED = 512  # samples whose predictions are compared with the clean ones
_STRIP_EDGE, _STRIP_BUDGET = 96, 1_000_000
_EDGE = 32  # of a picture on the map
_AT_ONCE = 2**22  # entries of samples that are in memory together
_TEXT = 1_000_000  # bytes of all names together, and of all classes
_SHORTEST_NAME = 20  # to which one is shortened
_CLUSTERS = 10
Array = NDArray[Any]
Json = dict[str, Any]


class Wanted(NamedTuple):
    """What the caller of `write` asked for."""

    data: str | os.PathLike[str] | None
    labels: str | os.PathLike[str] | None
    root: str | os.PathLike[str] | None
    part: str | None
    map: str | None
    points: int
    clusters: int | None
    seed: int


class Looked(NamedTuple):
    """What was found; pictures are apart, so that runs on the same data share them."""

    strips: Json | None  # None of a network that predicts nothing
    map: Json
    sounds: list[Json]
    pictures: Pixels  # one a point of the map
    key: str  # of the pictures


def look(encoder: DenoisingEncoder, shown: Shown, wanted: Wanted) -> Looked:
    """Predict, draw, and lay out the samples that are shown."""
    chosen = _spread(len(shown.rows), _COMPARED)
    part = shown.take(chosen)
    painter = find_painter(part, encoder.front_end_, shown.rate)
    strips = None
    if predicts(encoder):
        denoised = torch.from_numpy(encoder.denoise(part))
        if not bool(denoised.isfinite().all()):
            raise RunError("its predictions have NaN or infinite entries: the network has diverged")
        strips = _strips(part, denoised, shown, chosen, painter, encoder.front_end_ is not None)
    features, pictures, snr = _stream(encoder, shown, painter)
    found = _map(features, snr, shown, wanted)
    found["about_snr"] = _about_snr(encoder, part)
    key = hashlib.sha256(pictures.tobytes()).hexdigest()[:16]
    return Looked(strips, found, _sounds(encoder, shown), pictures, key)


def predicts(encoder: DenoisingEncoder) -> bool:
    """Whether it predicts samples; self-supervised ones have features only."""
    return not isinstance(encoder.objective_, SelfSupervised)


def _strips(
    part: Split, denoised: Tensor, shown: Shown, chosen: Tensor, painter: Painter, decibels: bool
) -> Json:
    """A few samples, noisy, denoised and, where they are known, clean; and how near predictions come."""
    assert isinstance(part.x, Tensor)  # noqa: S101
    few = _spread(len(chosen), STRIP)
    rows = {"noisy": painter.levels(part.x[few])}
    rows["denoised"] = denoised[few] if decibels else painter.levels(denoised[few])
    if part.clean is not None:
        rows["clean"] = painter.levels(part.clean[few])
    pictures = np.concatenate([painter.paint(values, _STRIP_EDGE) for values in rows.values()])
    strips: Json = {
        "kind": painter.kind,
        "base": painter.base,
        "rows": list(rows),
        "sheets": pack(pictures, _STRIP_BUDGET),
        "names": [shown.name(int(chosen[row])) for row in few],
        "labels": _label_names(part, few, shown),
        "cosines": None,
    }
    if part.clean is not None and not decibels:
        near = [cosine_similarity(part.clean.flatten(1), x.flatten(1), dim=1) for x in (part.x, denoised)]
        strips["cosines"] = [_rounded(values[few]) for values in near]
        strips["mean_cosines"] = [float(values.mean()) for values in near]
        strips["compared"] = len(chosen)
    return strips


def _stream(encoder: DenoisingEncoder, shown: Shown, painter: Painter) -> tuple[Array, Pixels, Array | None]:
    """Features, pictures and SNR of all samples that are shown, some at a time."""
    n = len(shown.rows)
    step = max(1, min(2048, _AT_ONCE // int(np.prod(shown.split.x.shape[1:]))))
    generator = torch.Generator().manual_seed(0)
    features, pictures, snr = [], [], []
    with progress("computing features", n) as advance:
        for some in torch.arange(n).split(step):
            part = shown.take(some)
            assert isinstance(part.x, Tensor)  # noqa: S101
            features.append(encoder.transform(part))
            pictures.append(painter.paint(painter.levels(part.x), _EDGE))
            ratios = _snr(encoder, part, generator)
            if ratios is not None:
                snr.append(ratios.numpy())
            advance(len(some))
    joined = np.concatenate(features)
    if not np.isfinite(joined).all():
        raise RunError("its features have NaN or infinite entries: the network has diverged")
    return joined, np.concatenate(pictures), np.concatenate(snr) if snr else None


def _snr(encoder: DenoisingEncoder, part: Split, generator: torch.Generator) -> Tensor | None:
    """The signal-to-noise ratio of samples: measured where they are known clean, else as dCS estimates it."""
    x, objective = part.x, encoder.objective_
    assert isinstance(x, Tensor)  # noqa: S101
    if part.clean is not None:
        ratio: Tensor = part.clean.flatten(1).norm(dim=1) / (x - part.clean).flatten(1).norm(dim=1)
        return ratio
    if not isinstance(objective, DenoisingCosine):
        return None
    lengths, front_end = part.lengths, encoder.front_end_
    if front_end is not None:
        x = front_end(x, lengths)
        lengths = None if lengths is None else front_end.frames_of(lengths)
    valid = None if lengths is None else valid_entries(lengths, x.shape[1:])
    with torch.no_grad():
        ratios: Tensor = objective.weights(x, generator, valid=valid)[0]
    return ratios


def _about_snr(encoder: DenoisingEncoder, part: Split) -> str:
    if part.clean is not None:
        return "measured against the clean sample"
    if not isinstance(encoder.objective_, DenoisingCosine):
        return ""
    masker = getattr(encoder.objective_, "masker", None)
    splits = masker.splits if isinstance(masker, ChosenViews) else isinstance(masker, GaussianSplit)
    return "as dCS estimates it" + (", of the noisier version that training makes of it" if splits else "")


def _map(features: Array, snr: Array | None, shown: Shown, wanted: Wanted) -> Json:
    places, kind, remark = lay_out(features, wanted.map, wanted.seed)
    y = shown.split.y
    labels = None if y is None else y[shown.rows].tolist()
    classes = list(shown.classes) or ([] if labels is None else [str(k) for k in range(max(labels) + 1)])
    count = wanted.clusters or (
        len(set(labels)) if labels is not None and len(set(labels)) > 1 else _CLUSTERS
    )
    clusters = cluster(features, count, wanted.seed)
    return {
        "kind": kind,
        "remark": remark,
        "features": features.shape[1],
        "x": np.rint(places[:, 0] * 9999).astype(int).tolist(),
        "y": np.rint(places[:, 1] * 9999).astype(int).tolist(),
        "labels": labels,
        "classes": shortened(classes),
        "clusters": clusters.tolist(),
        "snr": None if snr is None else _rounded(torch.from_numpy(snr)),
        "rows": shown.rows.tolist(),
        "names": _names(shown),
        "part": shown.part,
        "of": len(shown.split),
    }


def _names(shown: Shown) -> list[str] | None:
    """The files of samples, shortened where they would be too much for a page."""
    if not len(shown.split.names):
        return None
    return shortened([shown.name(number) for number in range(len(shown.rows))])


def shortened(texts: list[str], room: int = _TEXT) -> list[str]:
    """Texts of which the long ones have lost their middle, if all would take too many bytes."""
    size = sum(len(text.encode("utf-8", "replace")) for text in texts)
    if size <= room:
        return texts
    longest = max(_SHORTEST_NAME, int(room / size * sum(map(len, texts)) / len(texts)))
    half = longest // 2
    return [text if len(text) <= longest else f"{text[:half]}…{text[-half:]}" for text in texts]


def _sounds(encoder: DenoisingEncoder, shown: Shown) -> list[Json]:
    """A few recordings; denoised too, if the network sees waveforms."""
    if shown.rate is None:
        return []
    few = _spread(len(shown.rows), RECORDINGS)
    part, waves = shown.take(few), encoder.front_end_ is None and predicts(encoder)
    assert isinstance(part.x, Tensor)  # noqa: S101
    kinds = {"noisy": part.x.numpy()}
    if waves:
        kinds["denoised"] = encoder.denoise(part)
    if part.clean is not None:
        kinds["clean"] = part.clean.numpy()
    length = heard(shown.rate, part.x.shape[1], len(kinds))
    labels = _label_names(part, torch.arange(len(few)), shown)
    sounds = []
    for number, row in enumerate(few.tolist()):
        # One gain for all versions, so that their loudness can be compared.
        gain = 0.9 / max(float(np.abs(kinds["noisy"][number, :length]).max()), 1e-6)
        versions = {kind: as_wav(x[number, :length], shown.rate, gain) for kind, x in kinds.items()}
        name, label = shown.name(row), labels[number] if labels else None
        cut = length < part.x.shape[1]
        sounds.append({"name": name, "label": label, "versions": versions, "cut": cut})
    return sounds


def _label_names(part: Split, chosen: Tensor, shown: Shown) -> list[str] | None:
    if part.y is None:
        return None
    numbers = part.y[chosen].tolist()
    return [shown.classes[number] if number < len(shown.classes) else str(number) for number in numbers]


def _rounded(values: Tensor) -> list[float | None]:
    return [round(value, 3) if np.isfinite(value) else None for value in values.tolist()]


def _spread(n: int, count: int) -> Tensor:
    """Evenly spread numbers below n, `count` at most."""
    return torch.arange(n) if n <= count else torch.linspace(0, n - 1, count).round().long()


def share_sheets(looked: dict[str, Pixels], budget: int) -> dict[str, Sheets]:
    """Pack the pictures of all runs, those on the same data once."""
    return {key: pack(pictures, budget // max(1, len(looked))) for key, pictures in looked.items()}
