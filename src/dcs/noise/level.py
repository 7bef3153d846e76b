"""Estimation of the noise level σ from noisy data alone."""

import math
from collections.abc import Sequence
from typing import Literal, overload

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from dcs._checks import check_choice, check_finite, check_integer, check_number, read_batch

_CHUNK = 2**22  # patch entries handled at once
_MOST_ROWS, _MOST_COLUMNS = 10_000, 256  # enough to test whether columns are in order
# Daubechies' high-pass filter with two vanishing moments (db2).
_HIGH_PASS = (-0.48296291314469025, 0.836516303737469, -0.22414386804185735, -0.12940952255092145)
_BLOCK, _CELL = 16, 4  # sides of blocks, and of the cells in them
_FLATTEST, _FEWEST_BLOCKS = 0.05, 16  # share of blocks that count as flat, and their least number
# Clipped values: least share of all, factor over the next value, and least share of blocks without any.
_CLIPPED, _SPIKE, _LEAST_INSIDE = 1e-3, 3, 0.1
_LARGE = 48  # pixels along both sides, from which pictures are expected to have flat blocks


@overload
def estimate_sigma(
    x: Tensor | np.ndarray,
    method: str = ...,
    *,
    per_image: Literal[False] = ...,
    ndim: int | None = ...,
    patch: int | None = ...,
    stride: int | None = ...,
) -> float: ...


@overload
def estimate_sigma(
    x: Tensor | np.ndarray,
    method: str = ...,
    *,
    per_image: Literal[True],
    ndim: int | None = ...,
    patch: int | None = ...,
    stride: int | None = ...,
) -> Tensor: ...


def estimate_sigma(
    x: Tensor | np.ndarray,
    method: str = "chen2015",
    *,
    per_image: bool = False,
    ndim: int | None = None,
    patch: int | None = None,
    stride: int | None = None,
) -> float | Tensor:
    """Estimate the standard deviation of additive white noise.

    `chen2015` (Chen, Zhu & Heng, ICCV 2015) assumes Gaussian noise and signals whose patches fill only few
    directions: the small eigenvalues of the patches' covariance are then σ². `mad` (Donoho & Johnstone 1994)
    assumes that the finest diagonal wavelet coefficients are mostly noise and takes their median size.
    Texture that is as fine as a pixel looks like noise to both. `flat`, for pictures, looks only where there
    is least texture: it takes the 5 % of all blocks of 16 x 16 whose cells of 4 x 4 differ least in their
    means, and the small eigenvalues of the covariance of what is left of these cells without their means.
    White noise has independent means and remainders, so that the choice of blocks does not change its
    estimate. See docs/noise-level.md.

    Args:
        x: Noisy data (n, ...) whose last `ndim` axes are space or time; axes before them count as
            separate images of the sample.
        method: Estimator: `chen2015`, `mad` or `flat`; `auto` is `flat` for pictures of at least 48 x 48, and
            `chen2015` for other data.
        per_image: Whether to return one estimate per sample, (n,), instead of one for all; not for `flat`.
        ndim: Number of axes of space or time, 1 or 2; by default 1 for data (n, t), (n, 1, t) and (n, 2, t),
            and 2 otherwise.
        patch: Side of a patch for `chen2015`: by default 8, or 5 with `per_image`, and smaller where that
            leaves fewer than 20 patches for each entry of a patch: with fewer, the estimate is biased low.
            For vectors (n, t) whose entries have no order, as in most tables, all entries form one patch if
            n is at least 10 t.
        stride: Distance between patches: by default 3, or 1 where 3 would leave fewer than 100 of them.

    Returns:
        σ̂, a number; with `per_image` a float64 tensor (n,).

    Example:
        >>> noise = torch.randn(20, 64, 64, generator=torch.Generator().manual_seed(0))
        >>> round(estimate_sigma(1 + 0.3 * noise), 3)
        0.297
    """
    x, images = _read(x, ndim)
    check_choice("method", method, ("chen2015", "mad", "flat", "auto"))
    space = images.shape[2:]
    if method == "auto":
        method = "flat" if len(space) == 2 and min(space) >= _LARGE and not per_image else "chen2015"
    if method == "flat":
        if len(space) != 2 or min(space) < _BLOCK or per_image:
            raise ValueError(
                f"method 'flat' needs pictures of at least {_BLOCK} x {_BLOCK}, and per_image=False, got "
                f"{tuple(space)} and per_image={per_image}"
            )
        cells, means = _cells(images)
        return _deviation_where_flat(cells, means)
    if method == "mad":
        if min(space) < 8:
            raise ValueError(f"method 'mad' needs at least 8 entries along each axis, got {tuple(space)}")
        sigma = _median_deviation(images, per_image)
        return sigma if per_image else float(sigma)
    if patch is not None:
        check_integer("patch", patch, at_least=2)
    if stride is not None:
        check_integer("stride", stride, at_least=1)

    def patches_for_each_entry(side: int, step: int) -> float:
        in_one = images.shape[1] * math.prod((length - side) // step + 1 for length in space)
        return float(in_one * (1 if per_image else len(x)) / side ** len(space))

    if patch is None and not per_image and x.ndim == 2 and len(x) >= 10 * x.shape[1] and not _in_order(x):
        patch = max(2, x.shape[1])
    side = min(patch or (5 if per_image else 8), *space)
    while patch is None and side > 2 and patches_for_each_entry(side, stride or 1) < 20:
        side -= 1
    step = stride or (3 if patches_for_each_entry(side, 3) >= 100 else 1)
    if side < 2 or patches_for_each_entry(side, step) < 10:
        raise ValueError(
            f"x has too few patches for an estimate: {patches_for_each_entry(side, step):.2g} for each entry "
            f"of a patch of side {side}, and 10 are needed; use more data, or a smaller patch or stride"
        )
    sigma = _small_eigenvalues(_covariance(images, side, step, per_image)).clamp(min=0).sqrt()
    return sigma if per_image else float(sigma)


def sigma_by_brightness(x: Tensor | np.ndarray, parts: int = 3) -> Tensor:
    """Estimate the noise level of dark, medium and bright parts of pictures, as `estimate_sigma` with `flat`.

    It is the same in all parts for noise that does not depend on the signal, and grows for photon counts.

    Args:
        x: Noisy pictures, (n, h, w) or (n, c, h, w), of at least 16 x 16.
        parts: Number of parts, by the mean of blocks, each with the same number of blocks.

    Returns:
        σ̂ of each part, from dark to bright, (parts,) in float64.

    Example:
        >>> noise = torch.randn(40, 64, 64, generator=torch.Generator().manual_seed(0))
        >>> ramp = torch.linspace(0, 1, 64)
        >>> [round(sigma, 1) for sigma in sigma_by_brightness(ramp + 0.3 * noise).tolist()]
        [0.3, 0.3, 0.3]
        >>> [round(sigma, 1) for sigma in sigma_by_brightness(ramp + ramp * noise).tolist()]
        [0.1, 0.4, 0.7]
    """
    check_integer("parts", parts, at_least=1)
    _, images = _read(x, 2)
    if min(images.shape[2:]) < _BLOCK:
        raise ValueError(f"x must be pictures of at least {_BLOCK} x {_BLOCK}, got {tuple(images.shape[2:])}")
    cells, means = _cells(images)
    groups = means.mean(1).argsort().tensor_split(parts)
    found = [_deviation_where_flat(cells[group], means[group]) for group in groups if len(group)]
    return torch.tensor(found, dtype=torch.float64)


def has_flat_blocks(shape: Sequence[int]) -> bool:
    """Return whether samples of a shape are pictures large enough for `sigma_by_brightness`."""
    return len(shape) > 1 and min(shape[-2:]) >= _LARGE


def quiet_share(x: Tensor | np.ndarray, sigma: float, *, ndim: int | None = None) -> float:
    """Measure the share of the data with less variance than white noise of deviation sigma would have.

    This is the share of windows (3 x 3, or 5 along one axis) whose variance is below that of 95 % of windows
    of white Gaussian noise. Signal only adds variance, so at most 0.05 is expected. More means that the noise
    is weaker in some places or samples (photon counts, speckle), or that there is none.

    Args:
        x: Noisy data (n, ...), as for `estimate_sigma`.
        sigma: Standard deviation of the noise, above 0.
        ndim: Number of axes of space or time; see `estimate_sigma`.

    Returns:
        The share, from 0 to 1; NaN if samples are smaller than a window.

    Example:
        >>> noise = 0.3 * torch.randn(20, 64, 64, generator=torch.Generator().manual_seed(0))
        >>> round(quiet_share(noise, 0.3), 2), round(quiet_share(torch.cat([noise, noise / 9]), 0.3), 2)
        (0.05, 0.52)
    """
    _, images = _read(x, ndim)
    check_number("sigma", sigma, above=0)
    from scipy.special import chdtri  # takes long to import

    space = images.shape[2:]
    side = 3 if len(space) == 2 else 5
    entries = side ** len(space)
    if min(space) < side:
        return math.nan
    most = sigma**2 * float(chdtri(entries - 1, 0.95)) / (entries - 1)
    quiet = count = 0
    for part in images.split(max(1, _CHUNK // (entries * images[0].numel()))):
        windows = part.float() if part.dtype.itemsize < 4 else part
        for axis in range(2, images.ndim):
            windows = windows.unfold(axis, side, 1)
        variance = windows.reshape(-1, entries).var(1)
        quiet, count = quiet + int((variance < most).sum()), count + len(variance)
    return quiet / count


def default_ndim(shape: Sequence[int]) -> int:
    """Return the default number of trailing axes along which samples of a shape have neighbours."""
    return 2 if len(shape) > 1 and shape[-2] > 2 else 1


def _read(x: Tensor | np.ndarray, ndim: int | None) -> tuple[Tensor, Tensor]:
    """Return checked data as it is and as images, on a device with float64, which Apple's lacks."""
    x = read_batch("x", x)
    x = x.cpu() if x.device.type == "mps" else x
    check_finite(x.sum(dtype=torch.float64), x=x)
    return x, as_images(x, ndim)


def _in_order(x: Tensor) -> bool:
    """Test, at a level of 1 %, whether neighbouring entries of vectors (n, t) are more alike than others."""
    columns = x[:_MOST_ROWS, :_MOST_COLUMNS].T.double()
    alike = torch.corrcoef(columns).nan_to_num().reshape(len(columns), -1)
    draw = torch.rand(999, len(columns), generator=torch.Generator().manual_seed(0))
    orders = torch.cat([torch.arange(len(columns))[None], draw.argsort(1)]).to(x.device)
    sums = alike[orders[:, :-1], orders[:, 1:]].sum(1)
    return bool((sums >= sums[0]).double().mean() <= 0.01)


def as_images(x: Tensor, ndim: int | None) -> Tensor:
    """Reshape data to (n, channels, space or time)."""
    if ndim is None:
        ndim = default_ndim(x.shape[1:])
    check_integer("ndim", ndim, at_least=1, at_most=2)
    if x.ndim <= ndim:
        raise ValueError(f"ndim must leave a batch axis, got {ndim} for shape {tuple(x.shape)}")
    return x.detach().reshape(len(x), -1, *x.shape[-ndim:])


def _cells(images: Tensor) -> tuple[Tensor, Tensor]:
    """Return the cells of all blocks, (blocks, cells, 16), and their means, (blocks, cells)."""
    flat = images.flatten(0, 1)
    blocks = flat.unfold(1, _BLOCK, _BLOCK).unfold(2, _BLOCK, _BLOCK).flatten(0, 2)
    cells = blocks.unfold(1, _CELL, _CELL).unfold(2, _CELL, _CELL).flatten(1, 2).flatten(2)
    check_finite(cells.sum(), x=images)
    cells = _without_clipped(cells)
    return cells, cells.mean(2, dtype=torch.float64)


def _without_clipped(cells: Tensor) -> Tensor:
    """Leave out blocks with clipped values, as noise is weaker where it is clipped.

    Values are clipped at the smallest or largest of all if far more values are there than at the next one;
    counts of photons, which have a smallest value too, fall off slowly.
    """
    clipped = torch.zeros((), dtype=torch.bool, device=cells.device)
    for values, end in zip((cells, -cells), (*cells.aminmax(),), strict=True):
        at_end = cells == end
        share = float(at_end.float().mean())
        if _CLIPPED < share < 1:
            following = values[~at_end].min()
            if share > _SPIKE * float((values == following).float().mean()):
                clipped = clipped | at_end
    inside = ~clipped.expand(cells.shape).flatten(1).any(1)
    return cells[inside] if int(inside.sum()) >= _LEAST_INSIDE * len(cells) else cells


def _deviation_where_flat(cells: Tensor, means: Tensor) -> float:
    """Estimate σ from what is left of cells without their means, in the blocks whose means differ least."""
    count = max(_FEWEST_BLOCKS, int(_FLATTEST * len(cells)))
    chosen = means.var(1).argsort()[:count]
    left = (cells[chosen].double() - means[chosen][..., None]).flatten(0, 1)
    left -= left.mean(0)
    covariance = left.mT @ left / len(left)
    eigenvalues = torch.linalg.eigvalsh(covariance)[1:]  # ascending; nothing is left along the mean
    return float(_mean_of_small(eigenvalues).clamp(min=0).sqrt())


def _covariance(images: Tensor, side: int, step: int, per_image: bool) -> Tensor:
    """Compute the covariance (divided by N) of patches of d entries: (n, d, d), or (d, d) pooled."""
    d = side ** (images.ndim - 2)
    groups = len(images) if per_image else 1
    outer = images.new_zeros((groups, d, d), dtype=torch.float64)
    total = images.new_zeros((groups, 1, d), dtype=torch.float64)
    count = 0
    middle = images.mean(dtype=torch.float64)  # squares of large values would lose digits
    at_once = max(1, _CHUNK // (images[0].numel() * d // step ** (images.ndim - 2)))
    for start in range(0, len(images), at_once):
        patches = images[start : start + at_once]
        for axis in range(2, images.ndim):
            patches = patches.unfold(axis, side, step)
        patches = patches.reshape(len(patches) if per_image else 1, -1, d).double() - middle
        rows = slice(start, start + at_once) if per_image else slice(None)
        outer[rows] += patches.mT @ patches
        total[rows] += patches.sum(1, keepdim=True)
        count = patches.shape[1] if per_image else count + patches.shape[1]
    check_finite(outer.sum(), x=images)
    mean = total / count
    covariance = outer / count - mean.mT @ mean
    return covariance if per_image else covariance[0]


def _small_eigenvalues(covariance: Tensor) -> Tensor:
    """Return σ² by the small eigenvalues of a covariance."""
    return _mean_of_small(torch.linalg.eigvalsh(covariance))


def _mean_of_small(eigenvalues: Tensor) -> Tensor:
    """Return σ²: the mean of as many of the smallest eigenvalues, ascending, as make it their median, too.

    The largest eigenvalue is dropped until as many of the others lie above their mean as below.
    """
    d = eigenvalues.shape[-1]
    means = eigenvalues.cumsum(-1) / torch.arange(1, d + 1, device=eigenvalues.device)
    kept = torch.ones(d, d, dtype=torch.bool, device=eigenvalues.device).tril()  # row i keeps i + 1 of them
    above = (kept & (eigenvalues[..., None, :] > means[..., :, None])).sum(-1)
    below = (kept & (eigenvalues[..., None, :] < means[..., :, None])).sum(-1)
    last = torch.where(above == below, torch.arange(d, device=eigenvalues.device), 0).amax(-1)
    return means.gather(-1, last[..., None]).squeeze(-1)


def _median_deviation(images: Tensor, per_image: bool) -> Tensor:
    """Return the median absolute diagonal detail of a one-level wavelet transform, over that of N(0, 1)."""
    details = images.double()
    kernel = details.new_tensor(_HIGH_PASS)
    for axis in range(2, images.ndim):
        moved = details.movedim(axis, -1)
        rows = functional.conv1d(moved.reshape(-1, 1, moved.shape[-1]), kernel[None, None], stride=2)
        details = rows.reshape(*moved.shape[:-1], -1).movedim(-1, axis)
    size = details.abs().flatten(1 if per_image else 0).sort().values  # torch.quantile takes 2**24 at most
    middle = size.shape[-1] // 2
    return (size[..., middle] + size[..., -middle - 1]) / 2 / 0.6744897501960817
