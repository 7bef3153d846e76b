"""Features of samples by a frozen encoder, and checks of labels."""

import contextlib
import warnings
from collections.abc import Callable, Iterator
from functools import partial
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
    features = apply("encoder", encoder, "transform", x, _encode)
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
        own, made = "remove or replace them first", "check the weights and the input of the encoder"
        remedy = own if encoder is None else made
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


def _encode(network: nn.Module, x: Tensor) -> Tensor:
    if hasattr(network, "encode") or hasattr(network, "encoder"):
        return encoder_of(network)(x)
    features = network(x)
    if not isinstance(features, Tensor):
        kind = type(features).__name__
        raise TypeError(f"encoder {type(network).__name__} must return a tensor of features, got a {kind}")
    return features


def apply(
    name: str, model: Any, method: str, x: Any, call: Callable[..., Tensor] = nn.Module.__call__
) -> Any:
    """Call the method of a model, a module or a function on samples, and check that it is not changed."""
    with _unchanged(model):
        if model is None:
            return x
        if hasattr(model, method):
            return getattr(model, method)(x)
        if isinstance(model, nn.Module):
            samples = x if isinstance(x, Tensor | data.Samples) else torch.as_tensor(np.asarray(x))
            if isinstance(samples, Tensor) and samples.is_floating_point():  # NumPy's default is float64
                kinds = (value.dtype for value in model.parameters() if value.is_floating_point())
                samples = samples.to(next(kinds, torch.float32))
            with inferring(model, device_of(model)):
                return data.map_batches(partial(call, model), samples, device=device_of(model))
        if callable(model):
            with torch.no_grad():
                return model(x.read(range(len(x))) if isinstance(x, data.Samples) else x)
    raise TypeError(f"{name} must have {method}, or be a module or a function, got {model!r}")


@contextlib.contextmanager
def _unchanged(encoder: Any) -> Iterator[None]:
    """Check parameters and buffers of a module, of a `DenoisingEncoder` or of the owner of a method."""
    owners = (encoder, getattr(encoder, "network_", None), getattr(encoder, "__self__", None))
    network = next((owner for owner in owners if isinstance(owner, nn.Module)), nn.Module())
    before = {name: value.detach().clone() for name, value in _state(network).items()}
    yield
    after = _state(network)
    for name in before | after:
        a, b = before.get(name), after.get(name)
        # NaN equals itself here: a diverged network is reported by its features.
        if a is None or b is None or a.shape != b.shape or not bool(((a == b) | ((a != a) & (b != b))).all()):
            raise RuntimeError(f"evaluation has changed {name} of the encoder, which must stay as it is")


def _state(network: nn.Module) -> dict[str, Tensor]:
    """Return all parameters and buffers, including those that are not saved."""
    return {**dict(network.named_parameters()), **dict(network.named_buffers())}


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


def features_and_labels(
    train: Any, test: Any, encoder: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor, dict[str, int]]:
    """Return features and numbers of classes of training and of test samples, and the sizes of these."""
    (x, y), (test_x, test_y) = labelled(train, "train"), labelled(test, "test")
    classes, targets = numbered(y, test_y)
    z, test_z = (torch.from_numpy(features_of(encoder, *part)) for part in ((x, "train"), (test_x, "test")))
    if z.shape[1] != test_z.shape[1]:
        raise ValueError(f"test must have as many features as train, {z.shape[1]}, got {test_z.shape[1]}")
    sizes = {"train": len(z), "test": len(test_z), "features": z.shape[1], "classes": len(classes)}
    return z, targets[0], test_z, targets[1], sizes


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
                stacklevel=4,
            )
    return classes, found
