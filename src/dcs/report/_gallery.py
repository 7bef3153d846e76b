"""What a page shows of the samples of a run: strips, a feature map, and recordings to listen to."""

import base64
import hashlib
import io
import wave
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cosine_similarity

from dcs._progress import progress
from dcs.data import Split, valid_entries
from dcs.report._layout import cluster, lay_out
from dcs.report._page import is_split
from dcs.report._pictures import Painter, Pixels, Sheets, find_painter, pack
from dcs.report._selection import ReportOptions, Selection
from dcs.runs import Predictor
from dcs.training import RunError

STRIP = 12  # samples
_COMPARED = 512  # samples whose predictions are compared with the clean ones
_STRIP_EDGE, _STRIP_BUDGET = 96, 1_000_000
_EDGE = 32  # longest side of a picture on the map
_AT_ONCE = 2**22  # entries of samples that are in memory together
_TEXT = 1_000_000  # bytes of all names together, and of all classes
_SHORTEST_NAME = 20  # to which one is shortened
_CLUSTERS = 10
RECORDINGS = 3
_SOUND_BYTES = 1_200_000  # all recordings of a run together
_LONGEST_SOUND = 8.0  # seconds
Array = NDArray[Any]
Json = dict[str, Any]


class Gallery(NamedTuple):
    """What is shown of the samples; pictures are separate, so that runs on the same data share them."""

    strips: Json | None  # None for a network that does not predict samples
    map: Json
    sounds: list[Json]
    pictures: Pixels  # one per point of the map


def make_gallery(predictor: Predictor, shown: Selection, options: ReportOptions) -> Gallery:
    """Denoise, draw and lay out the samples that are shown."""
    chosen = _spread(len(shown.rows), _COMPARED)
    part = shown.take(chosen)
    painter = find_painter(part, predictor.front_end, shown.rate)
    strips = None
    if predictor.predicts:
        part = replace(part, items=None)  # of pictures of any size, the centre is shown
        denoised = torch.from_numpy(predictor.denoise(part))
        if not bool(denoised.isfinite().all()):
            raise RunError("its predictions have NaN or infinite entries, so training has diverged")
        strips = _strips(part, denoised, shown, chosen, painter, predictor.front_end is not None)
    features, pictures, snr = _stream(predictor, shown, painter)
    made = _map(features, snr, shown, options)
    made["about_snr"] = _about_snr(predictor, part)
    made["sheets"] = hashlib.sha256(pictures.tobytes()).hexdigest()[:16]  # the key of the pictures
    return Gallery(strips, made, _sounds(predictor, shown), pictures)


def _strips(
    part: Split, denoised: Tensor, shown: Selection, chosen: Tensor, painter: Painter, decibels: bool
) -> Json:
    """Draw a few samples noisy, denoised and, if known, clean; and measure how close predictions are."""
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
        "labels": shown.label_names(part.take(few)),
        "cosines": None,
    }
    if part.clean is not None and not decibels:
        near = [cosine_similarity(part.clean.flatten(1), x.flatten(1), dim=1) for x in (part.x, denoised)]
        strips["cosines"] = [_rounded(values[few]) for values in near]
        strips["mean_cosines"] = [float(values.mean()) for values in near]
        strips["compared"] = len(chosen)
    return strips


def _stream(predictor: Predictor, shown: Selection, painter: Painter) -> tuple[Array, Pixels, Array | None]:
    """Compute features, pictures and SNR of all samples that are shown, some at a time."""
    n = len(shown.rows)
    step = max(1, min(2048, _AT_ONCE // int(np.prod(shown.split.x.shape[1:]))))
    generator = torch.Generator().manual_seed(0)
    features, pictures, snr = [], [], []
    with progress("computing features", n) as advance:
        for some in torch.arange(n).split(step):
            part = shown.take(some)
            assert isinstance(part.x, Tensor)  # noqa: S101
            features.append(predictor.transform(part))
            pictures.append(painter.paint(painter.levels(part.x), _EDGE))
            ratios = _snr(predictor, part, generator)
            if ratios is not None:
                snr.append(ratios.numpy())
            advance(len(some))
    joined = np.concatenate(features)
    if not np.isfinite(joined).all():
        raise RunError("its features have NaN or infinite entries, so training has diverged")
    return joined, np.concatenate(pictures), np.concatenate(snr) if snr else None


def _snr(predictor: Predictor, part: Split, generator: torch.Generator) -> Tensor | None:
    """Return the SNR of samples: measured if they are known clean, otherwise as estimated by dCS."""
    x, weights = part.x, getattr(predictor.objective, "weights", None)
    assert isinstance(x, Tensor)  # noqa: S101
    if part.clean is not None:
        ratio: Tensor = part.clean.flatten(1).norm(dim=1) / (x - part.clean).flatten(1).norm(dim=1)
        return ratio
    if weights is None:
        return None
    x = predictor.learned.units.apply(x)
    lengths, front_end = part.lengths, predictor.front_end
    if front_end is not None:
        x = front_end(x, lengths)
        lengths = None if lengths is None else front_end.frames_of(lengths)
    valid = None if lengths is None else valid_entries(lengths, x.shape[1:])
    with torch.no_grad():
        ratios: Tensor = weights(x, generator, valid=valid)[0]
    return ratios


def _about_snr(predictor: Predictor, part: Split) -> str:
    if part.clean is not None:
        return "measured against the clean sample"
    if predictor.objective is None or not hasattr(predictor.objective, "weights"):
        return ""
    splits = is_split(predictor.objective.describe())
    return "estimated by dCS" + (" for the noisier version that is made of it in training" if splits else "")


def _map(features: Array, snr: Array | None, shown: Selection, options: ReportOptions) -> Json:
    places, kind, remark = lay_out(features, options.map, options.seed)
    y = shown.split.y
    labels = None if y is None else y[shown.rows].tolist()
    classes = list(shown.classes) or ([] if labels is None else [str(k) for k in range(max(labels) + 1)])
    names = shortened([str(shown.split.names[row]) for row in shown.rows]) if len(shown.split.names) else None
    found = 0 if labels is None else len(set(labels))
    count = options.clusters or (found if found > 1 else _CLUSTERS)
    clusters = cluster(features, count, options.seed)
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
        "names": names,
        "part": shown.part,
        "of": len(shown.split),
    }


def shortened(texts: list[str], room: int = _TEXT) -> list[str]:
    """Cut the middle out of long texts if all together would take more than `room` bytes."""
    size = sum(len(text.encode("utf-8", "replace")) for text in texts)
    if size <= room:
        return texts
    longest = max(_SHORTEST_NAME, int(room / size * sum(map(len, texts)) / len(texts)))
    half = longest // 2
    return [text if len(text) <= longest else f"{text[:half]}…{text[-half:]}" for text in texts]


def _sounds(predictor: Predictor, shown: Selection) -> list[Json]:
    """Return a few recordings; denoised too, if the network works on waveforms."""
    if shown.rate is None:
        return []
    few = _spread(len(shown.rows), RECORDINGS)
    part = shown.take(few)
    assert isinstance(part.x, Tensor)  # noqa: S101
    kinds = {"noisy": part.x.numpy()}
    if predictor.predicts and predictor.front_end is None:
        kinds["denoised"] = predictor.denoise(part)
    if part.clean is not None:
        kinds["clean"] = part.clean.numpy()
    length = playable_length(shown.rate, part.x.shape[1], len(kinds))
    labels = shown.label_names(part)
    sounds = []
    for number, row in enumerate(few.tolist()):
        # One gain for all versions, so that their loudness can be compared.
        gain = 0.9 / max(float(np.abs(kinds["noisy"][number, :length]).max()), 1e-6)
        versions = {kind: as_wav(x[number, :length], shown.rate, gain) for kind, x in kinds.items()}
        about = {"name": shown.name(row), "label": labels and labels[number], "cut": length < part.x.shape[1]}
        sounds.append({**about, "versions": versions})
    return sounds


def playable_length(rate: int, length: int, kinds: int) -> int:
    """Return how many samples of each recording fit in the page, in so many versions."""
    return min(length, round(_LONGEST_SOUND * rate), _SOUND_BYTES // (2 * RECORDINGS * kinds))


def as_wav(signal: NDArray[np.float32], rate: int, gain: float) -> str:
    """Return a data URI of a mono recording with 16 bits per sample."""
    integers = np.rint(np.clip(signal * gain, -1, 1) * 32767).astype("<i2")
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(integers.tobytes())
    return f"data:audio/wav;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def _rounded(values: Tensor) -> list[float | None]:
    return [round(value, 3) if np.isfinite(value) else None for value in values.tolist()]


def _spread(n: int, count: int) -> Tensor:
    """Return at most `count` evenly spread numbers below n."""
    return torch.arange(n) if n <= count else torch.linspace(0, n - 1, count).round().long()


def share_sheets(galleries: Iterable[Gallery], budget: int) -> dict[str, Sheets]:
    """Pack the pictures of all runs; those on the same data are packed once."""
    pictures = {gallery.map["sheets"]: gallery.pictures for gallery in galleries}
    return {key: pack(one, budget // max(1, len(pictures))) for key, one in pictures.items()}
