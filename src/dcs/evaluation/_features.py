"""Features of samples by a frozen encoder, and checks of labels."""

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dcs import data
from dcs.models import device_of, encoder_of, inferring

Array = NDArray[Any]


def features_of(encoder: Any, x: Any, name: str = "x") -> Array:
    """Compute features (n, d), in float32, or in float64 if the encoder returns float64.

    Args:
        encoder: Object with `transform`; or a module, whose `encode`, `encoder` or call returns features; or
            a function of samples; None if x holds features.
        x: Samples (n, ...), as an array, a tensor, `dcs.data.Samples` or a `dcs.data.Split`.
        name: Name of x in error messages.
    """
    if isinstance(x, data.Split) and (x.lengths is None or not hasattr(encoder, "transform")):
        x = x.x
    with unchanged(encoder):
        if encoder is None:
            features = x
        elif hasattr(encoder, "transform"):
            features = encoder.transform(x)
        elif isinstance(encoder, nn.Module):
            own = hasattr(encoder, "encode") or hasattr(encoder, "encoder")
            encode = encoder_of(encoder) if own else _one_tensor(encoder)
            samples = x if isinstance(x, Tensor | data.Samples) else torch.as_tensor(np.asarray(x))
            if isinstance(samples, Tensor) and samples.is_floating_point():
                samples = samples.to(_dtype_of(encoder))  # NumPy's default is float64
            with inferring(encoder, device_of(encoder)):
                features = data.map_batches(encode, samples, device=device_of(encoder))
        elif callable(encoder):
            with torch.no_grad():
                features = encoder(x.read(range(len(x))) if isinstance(x, data.Samples) else x)
        else:
            raise TypeError(f"encoder must have transform, or be a module or a function, got {encoder!r}")
    if isinstance(features, tuple):
        raise TypeError(f"encoder must return one array of features (n, d), got a tuple of {len(features)}")
    if isinstance(features, Tensor):
        features = features.detach().cpu()
        features = (features if features.dtype == torch.float64 else features.float()).numpy()
    features = np.asarray(features)
    # A large mean with a small deviation would not survive float32.
    features = features.astype(np.float64 if features.dtype == np.float64 else np.float32, copy=False)
    if features.ndim < 2 or not len(features):
        raise ValueError(f"{name} must have features (n, d), got shape {features.shape}")
    if len(features) != len(x):
        raise ValueError(
            f"the features of {name} must be one row per sample, {len(x)}, got {len(features)}: is a batch "
            f"left out?"
        )
    if not np.isfinite(features).all():
        remedy = (
            "remove or replace them first"
            if encoder is None
            else "check the weights and the input of the encoder"
        )
        raise ValueError(f"the features of {name} have NaN or infinite entries: {remedy}")
    features = features.reshape(len(features), -1)
    smallest = 16 * np.finfo(features.dtype).eps * np.abs(features).max(0)  # rounding error
    if len(features) > 1 and (np.ptp(features, axis=0) <= smallest).all():
        warnings.warn(
            f"the features of {name} are the same for all samples: the encoder has collapsed, and any score "
            f"is at chance level",
            stacklevel=3,
        )
    return features


def _one_tensor(network: nn.Module) -> Callable[[Tensor], Tensor]:
    def call(x: Tensor) -> Tensor:
        features = network(x)
        if not isinstance(features, Tensor):
            kind = type(features).__name__
            raise TypeError(
                f"encoder {type(network).__name__} must return a tensor of features, got a {kind}"
            )
        return features

    return call


def _dtype_of(network: nn.Module) -> torch.dtype:
    return next((value.dtype for value in network.parameters() if value.is_floating_point()), torch.float32)


@contextlib.contextmanager
def unchanged(encoder: Any) -> Iterator[None]:
    """Check that the block changes no parameter or buffer of an encoder.

    The encoder may be a module, a `DenoisingEncoder` or a method of a module; functions are not checked.
    """
    owners = (encoder, getattr(encoder, "network_", None), getattr(encoder, "__self__", None))
    network = next((owner for owner in owners if isinstance(owner, nn.Module)), None)
    if network is None:
        yield
        return
    before = {name: value.detach().clone() for name, value in _state(network).items()}
    yield
    after = _state(network)
    # NaN equals itself here: a diverged network is reported by its features.
    changed = [
        name
        for name in (*before, *(after.keys() - before.keys()))
        if name not in before or name not in after or not _same(before[name], after[name])
    ]
    if changed:
        raise RuntimeError(f"evaluation has changed {changed[0]} of the encoder, which must stay as it is")


def _state(network: nn.Module) -> dict[str, Tensor]:
    """Return all parameters and buffers, including those that are not saved."""
    return {**dict(network.named_parameters()), **dict(network.named_buffers())}


def _same(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and bool(((a == b) | ((a != a) & (b != b))).all())


def labelled(part: Any, name: str) -> tuple[Any, Array]:
    """Return samples or features and their labels, from a `dcs.data.Split` or a pair (x, y)."""
    if isinstance(part, data.Split):
        x, y = part.x if part.lengths is None else part, part.y  # encoders may need the lengths
    elif isinstance(part, tuple) and len(part) == 2:
        x, y = part
    else:
        raise TypeError(f"{name} must be a dcs.data.Split or a pair (x, y), got {type(part).__name__}")
    if y is None:
        raise ValueError(f"{name} has no labels, which this protocol needs: pass ({name}, labels)")
    if hasattr(x, "toarray"):
        raise TypeError(f"{name} has a sparse matrix, which encoders do not take: pass x.toarray()")
    labels = y.cpu().numpy() if isinstance(y, Tensor) else np.asarray(y)
    if labels.ndim != 1 or len(labels) != len(x):
        raise ValueError(f"the labels of {name} must be ({len(x)},), one per sample, got {labels.shape}")
    if not len(labels):
        raise ValueError(f"{name} has no samples")
    check_labels(f"labels of {name}", labels)
    return x, labels


def check_labels(name: str, labels: Array) -> None:
    """Require that no label is missing: NumPy would treat NaN and empty text as one more class."""
    each = np.asarray(labels)
    missing = int(np.sum((each != each) | (each == "") | (each == None)))  # noqa: E711  (elementwise)
    if missing:
        raise ValueError(f"{missing} of {len(each)} {name} are missing: leave these samples out")


def check_widths(train: Array | Tensor, test: Array | Tensor) -> None:
    """Require the same number of features in both."""
    if train.shape[1] != test.shape[1]:
        raise ValueError(f"test must have as many features as train, {train.shape[1]}, got {test.shape[1]}")


def numbered(train: Array, *others: Array) -> tuple[Array, list[Tensor]]:
    """Return the classes, and each set of labels as indices of classes."""
    parts = (train, *others)
    try:
        classes, numbers = np.unique(np.concatenate(parts), return_inverse=True)
    except TypeError:
        raise TypeError("labels must be all text or all numbers, got a mixture") from None
    found = list(torch.from_numpy(numbers).split([len(part) for part in parts]))
    known = found[0].unique()
    if len(known) < 2:
        raise ValueError(f"labels must be of at least two classes, got only {classes[known[0]]}")
    for part in found[1:]:
        new = part.unique()
        new = new[~torch.isin(new, known)]
        names = ", ".join(str(classes[number]) for number in new[:5]) + (", ..." if len(new) > 5 else "")
        if len(new) == len(part.unique()):
            raise ValueError(f"test has no class of train, only {names}: use the same names in both")
        if len(new):
            warnings.warn(
                f"test has {len(new)} classes that train lacks ({names}), whose samples cannot be classified",
                stacklevel=3,
            )
    return classes, found
