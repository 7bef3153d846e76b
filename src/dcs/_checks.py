"""Checks of arguments: each failure is one sentence that names the argument and the remedy."""

import math
import warnings
from collections.abc import Iterable
from numbers import Integral, Real

import numpy as np
import torch
from torch import Tensor


def check_tensor(name: str, value: object) -> None:
    """Require a real floating-point tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(
            f"{name} must be a torch.Tensor, got {type(value).__name__}: "
            f"convert it with torch.as_tensor({name})"
        )
    if value.layout != torch.strided:
        raise TypeError(
            f"{name} must be a dense tensor, got {value.layout}: convert it with {name}.to_dense()"
        )
    if not value.is_floating_point():
        raise TypeError(
            f"{name} must be a floating-point tensor, got {value.dtype}: convert it with {name}.float()"
        )


def check_batch(name: str, value: object) -> None:
    """Require a floating-point tensor (n, ...) with at least one sample and one entry."""
    check_tensor(name, value)
    assert isinstance(value, Tensor)  # noqa: S101  (tells the type checker what was just checked)
    if value.ndim == 0 or value.numel() == 0:
        raise ValueError(f"{name} must hold at least one sample (n, ...), got shape {tuple(value.shape)}")


def read_batch(name: str, x: "Tensor | np.ndarray") -> Tensor:
    """A batch as a tensor, to be read only: that of a NumPy array is over the same memory."""
    if isinstance(x, np.ndarray):
        if x.dtype.kind != "f" or x.dtype.itemsize > 8:
            raise TypeError(f"{name} must be a floating-point array, got {x.dtype}: use {name}.astype(float)")
        native = x.astype(x.dtype.newbyteorder("="), order="C", copy=False)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
            x = torch.from_numpy(native)
    check_batch(name, x)
    return x


def check_same_shape(name: str, value: Tensor, other_name: str, other: Tensor) -> None:
    """Require two tensors of one shape on one device."""
    if value.shape != other.shape:
        raise ValueError(
            f"{name} must have the shape of {other_name}, {tuple(other.shape)}, got {tuple(value.shape)}"
        )
    if value.device != other.device:
        raise ValueError(
            f"{name} is on {value.device} and {other_name} on {other.device}: move them to one device"
        )


def check_mask(name: str, mask: object, like: Tensor) -> Tensor:
    """Return `mask` as a bool tensor of `like`'s shape; size-1 axes broadcast, 0/1 numbers are taken."""
    if not isinstance(mask, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor of bool or 0/1, got {type(mask).__name__}")
    fits = mask.ndim == like.ndim and all(m in (1, s) for m, s in zip(mask.shape, like.shape, strict=True))
    if not fits:
        raise ValueError(
            f"{name} must have the shape {tuple(like.shape)} (or 1 along an axis that shares it), "
            f"got {tuple(mask.shape)}"
        )
    if mask.device != like.device:
        raise ValueError(f"{name} is on {mask.device}, the data on {like.device}: move {name}")
    if mask.dtype != torch.bool:
        as_bool = mask != 0
        if not bool((mask == as_bool).all()):
            raise ValueError(f"{name} must hold only 0 and 1 (or bool), got other values")
        mask = as_bool
    return mask.expand(like.shape)


def check_finite(statistic: Tensor, **tensors: Tensor) -> None:
    """Require finite data, judged by a scalar statistic of it that any NaN or infinity would spoil.

    The statistic (a sum, most often of norms that the caller needs anyway) makes the check nearly free;
    only when it fails are the tensors searched for the culprit. Skipped while compiling.
    """
    if torch.compiler.is_compiling() or math.isfinite(statistic.item()):
        return
    for name, tensor in tensors.items():
        wrong = int((~torch.isfinite(tensor)).sum())
        if wrong:
            remedy = "remove or replace them first"
            if name in ("prediction", "model(x)"):
                remedy = "the model has diverged; use a lower learning rate"
            raise ValueError(f"{name} has {wrong} NaN or infinite entries of {tensor.numel()}: {remedy}")
    names = " or ".join(tensors)
    raise ValueError(f"{names} is too large: its squared norm overflows; rescale the data")


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Require one of some names."""
    choices = list(choices)
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")


def check_bool(name: str, value: object, *, optional: bool = False) -> None:
    """Require True or False, or, if it is optional, None."""
    if not isinstance(value, bool) and not (optional and value is None):
        allowed = "True, False or None" if optional else "True or False"
        raise TypeError(f"{name} must be {allowed}, got {value!r}")


def check_number(
    name: str,
    value: object,
    *,
    above: float = -math.inf,
    at_least: float = -math.inf,
    at_most: float = math.inf,
) -> None:
    """Require a finite real number in the given range."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not (math.isfinite(number) and number > above and at_least <= number <= at_most):
        if at_most < math.inf:
            range_ = f"in {'(' if above > -math.inf else '['}{max(above, at_least):g}, {at_most:g}]"
        elif above > -math.inf:
            range_ = f"a finite number above {above:g}"
        elif at_least > -math.inf:
            range_ = f"a finite number of at least {at_least:g}"
        else:
            range_ = "a finite number"
        raise ValueError(f"{name} must be {range_}, got {value!s:.20}")


def check_integer(name: str, value: object, *, at_least: int, at_most: int = 2**63 - 1) -> None:
    """Require an integer in the given range."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer, got {type(value).__name__}")
    if not at_least <= int(value) <= at_most:
        most = f" and at most {at_most}" if at_most < 2**63 - 1 or int(value) > at_most else ""
        raise ValueError(f"{name} must be at least {at_least}{most}, got {value!s:.20}")


def check_generator(generator: object, device: torch.device) -> None:
    """Require a generator that can draw on `device`, or none."""
    if generator is None:
        return
    if not isinstance(generator, torch.Generator):
        raise TypeError(
            f"generator must be a torch.Generator or None, got {type(generator).__name__}: "
            f"use torch.Generator().manual_seed(seed)"
        )
    if generator.device.type != device.type:
        raise ValueError(
            f"generator is on {generator.device}, the data on {device}: "
            f"make it with torch.Generator(device={str(device)!r})"
        )
