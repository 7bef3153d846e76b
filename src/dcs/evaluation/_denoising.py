"""Denoising protocol: similarity of predictions to the clean data, where that is known."""

import math
import time
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, cosine_similarity

from dcs import data
from dcs._checks import check_number, check_same_shape
from dcs.evaluation._features import apply
from dcs.evaluation._result import Result

_ROWS = 512
_WINDOW, _DEVIATION = 11, 1.5  # side and standard deviation of the Gaussian window of SSIM


def denoising(noisy: Any, clean: Any = None, model: Any = None, *, data_range: float = 1.0) -> Result:
    """Compare predictions with the clean data.

    Args:
        noisy: Noisy samples (n, ...), or a `dcs.data.Split`.
        clean: Clean samples; by default those of the split.
        model: Model that predicts clean samples: a `DenoisingEncoder`, a module or a function. None if
            `noisy` holds predictions.
        data_range: Largest minus smallest possible value of the data, for PSNR and SSIM.

    Returns:
        The mean cosine, times 100. `metrics` has means over the samples: `cosine`; `psnr` and `si_snr` in dB,
        both without samples that are predicted exactly, the latter also without constant ones (`settings` has
        their numbers); and for images of at least 11 x 11, over the last two axes, `ssim`.

    Example:
        >>> clean = torch.rand(4, 16, 16, generator=torch.Generator().manual_seed(0))
        >>> round(denoising(clean + 0.1, clean).metrics["psnr"], 2)
        20.0
    """
    start = time.perf_counter()
    check_number("data_range", data_range, above=0)
    if isinstance(noisy, data.Split):
        clean = noisy.clean if clean is None else clean
        noisy = noisy.x if noisy.lengths is None or not hasattr(model, "denoise") else noisy
    if clean is None:
        raise ValueError("clean must be given, or a dcs.data.Split that has it: load data with noise=...")
    name = "noisy" if model is None else "model(noisy)"
    truth = _tensor(clean, "clean")
    if isinstance(model, nn.Module) and not hasattr(model, "denoise") and not isinstance(noisy, data.Samples):
        noisy = _tensor(noisy, "noisy")
    predicted = _tensor(apply("model", model, "denoise", noisy), name)
    check_same_shape("clean", truth, name, predicted)
    for what, values in (("clean", truth), (name, predicted)):
        wrong = int((~values.isfinite()).sum())
        if wrong:
            raise ValueError(f"{what} has {wrong} NaN or infinite entries of {values.numel()}")
    images = truth.ndim > 2 and min(truth.shape[-2:]) >= _WINDOW
    names = ["cosine", "psnr", "si_snr", *(["ssim"] if images else [])]
    parts = [
        torch.stack([MEASURES[name](s, s_hat, data_range) for name in names])
        for s, s_hat in zip(truth.split(_ROWS), predicted.split(_ROWS), strict=True)
    ]
    found = dict(zip(names, torch.cat(parts, 1).double(), strict=True))
    constant = _is_constant(truth) | _is_constant(predicted)
    found["si_snr"] = found["si_snr"][~constant]
    metrics = {name: _mean(measured) for name, measured in found.items()}
    settings = {"data_range": data_range, "samples": len(truth), "shape": list(truth.shape[1:])}
    settings["constant_samples"] = int(constant.sum())
    settings["exact_samples"] = int((truth == predicted).flatten(1).all(1).sum())
    seconds = time.perf_counter() - start
    return Result("denoising", 100 * metrics["cosine"], metrics, settings, None, seconds)


def cosine(clean: Tensor, predicted: Tensor, _: float = 1.0) -> Tensor:
    """Compute the cosine per sample, (n,)."""
    return cosine_similarity(clean.flatten(1), predicted.flatten(1), dim=1, eps=1e-20)


def psnr(clean: Tensor, predicted: Tensor, data_range: float = 1.0) -> Tensor:
    """Compute the peak signal-to-noise ratio per sample in dB, (n,)."""
    error = (clean - predicted).flatten(1).square().mean(1)
    return 10 * (data_range**2 / error).log10()


def si_snr(clean: Tensor, predicted: Tensor, _: float = 1.0) -> Tensor:
    """Compute the scale-invariant signal-to-noise ratio per sample in dB, (n,)."""
    s, s_hat = (part.flatten(1) - part.flatten(1).mean(1, keepdim=True) for part in (clean, predicted))
    target = (s * s_hat).sum(1, keepdim=True) / s.square().sum(1, keepdim=True).clamp(min=1e-30) * s
    return 10 * (target.square().sum(1) / (s_hat - target).square().sum(1)).log10()


def ssim(clean: Tensor, predicted: Tensor, data_range: float = 1.0) -> Tensor:
    """Compute the structural similarity (Wang et al. 2004, Gaussian window 11 x 11) per sample, (n,)."""
    a, b = (part.reshape(-1, 1, *part.shape[-2:]).double() for part in (clean, predicted))
    distance = torch.arange(_WINDOW, dtype=a.dtype, device=a.device) - _WINDOW // 2
    window = (-0.5 * (distance / _DEVIATION).square()).exp()
    window /= window.sum()

    def blur(image: Tensor) -> Tensor:
        return conv2d(conv2d(image, window.view(1, 1, -1, 1)), window.view(1, 1, 1, -1))

    mean_a, mean_b = blur(a), blur(b)
    variances = blur(a * a) - mean_a.square() + blur(b * b) - mean_b.square()
    covariance = blur(a * b) - mean_a * mean_b
    c1, c2 = (0.01 * data_range) ** 2, (0.03 * data_range) ** 2
    similarity = (2 * mean_a * mean_b + c1) * (2 * covariance + c2)
    similarity /= (mean_a.square() + mean_b.square() + c1) * (variances + c2)
    return similarity.flatten(1).mean(1).view(len(clean), -1).mean(1)


def _mean(values: Tensor) -> float:
    """Average over the samples, without infinite values unless all are."""
    bounded = values[values != math.inf]
    return float((bounded if len(bounded) else values).mean())


def _is_constant(x: Tensor) -> Tensor:
    low, high = x.flatten(1).aminmax(dim=1)
    return low == high


MEASURES = {"cosine": cosine, "psnr": psnr, "si_snr": si_snr, "ssim": ssim}


def _tensor(x: Any, name: str) -> Tensor:
    if isinstance(x, data.Samples):
        x = x.read(range(len(x)))
    array = x if isinstance(x, Tensor) else np.asarray(x)
    if isinstance(array, np.ndarray) and array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must be samples (n, ...), numbers, got {type(x).__name__}")
    samples = torch.as_tensor(array)
    if samples.ndim < 2 or not len(samples):
        raise ValueError(f"{name} must be samples (n, ...), got shape {tuple(samples.shape)}")
    return samples.detach().cpu().float()
