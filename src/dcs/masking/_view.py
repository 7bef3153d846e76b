"""Views: what a model sees of a sample, and what its prediction is compared with."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from torch import Generator, Tensor

from dcs._checks import check_batch, check_mask, check_same_shape
from dcs._registry import Registry


class View(NamedTuple):
    """What a model sees of a batch, what its prediction is compared with, and where.

    Args:
        seen: Input of the model.
        target: What the prediction is compared with.
        mask: Entries to compare, as bool; None compares all.
        snr: Signal-to-noise ratio of the target, one value per sample, where the view maker knows it better
            than an estimate from `seen` and `target`.
    """

    seen: Tensor
    target: Tensor
    mask: Tensor | None = None
    snr: Tensor | None = None


class ViewMaker(Protocol):
    """Anything that makes views of a batch."""

    def view(self, x: Tensor, generator: Generator | None = None, valid: Tensor | None = None) -> View:
        """Make a view.

        Args:
            x: Noisy samples (n, ...).
            generator: Random generator.
            valid: False on padding, which is never replaced, copied or compared.
        """
        ...


VIEWS: Registry[Any] = Registry("view")
"""View makers by the name that the setting `masking` refers to them by, as its `kind`."""


class Masker:
    """Base class of maskers: a subclass implements `__call__`, x -> (x_tilde, b)."""

    def __call__(
        self, x: Tensor, generator: Generator | None = None, *, valid: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Mask a batch; return x_tilde, and b, True where x_tilde differs from x by design."""
        raise NotImplementedError

    def view(self, x: Tensor, generator: Generator | None = None, valid: Tensor | None = None) -> View:
        """Mask a batch: the model sees x_tilde, and the masked entries of x are compared."""
        result = self(x, generator) if valid is None else self(x, generator, valid=valid)
        if not isinstance(result, tuple) or len(result) != 2:
            raise TypeError(f"masker must return (x_tilde, b), got {type(result).__name__}")
        x_tilde, b = result
        check_batch("x_tilde", x_tilde)
        check_same_shape("x_tilde", x_tilde, "x", x)
        return View(x_tilde, x, check_mask("b", b, x))


class FunctionMasker(Masker):
    """A masker made of a function.

    Args:
        function: Called as function(x, generator), and with valid=... where there is padding; returns
            (x_tilde, b).
    """

    def __init__(self, function: Callable[..., tuple[Tensor, Tensor]]) -> None:
        if not callable(function):
            raise TypeError(f"function must be callable, got {function!r}")
        self.function = function

    def __call__(self, x: Tensor, generator: Generator | None = None, **valid: Any) -> tuple[Tensor, Tensor]:
        """Call the function."""
        return self.function(x, generator, **valid)

    def __repr__(self) -> str:
        return f"FunctionMasker({self.function!r})"


def as_view_maker(masker: object) -> ViewMaker:
    """Return a view maker: one as it is, a function that returns (x_tilde, b) wrapped as a masker."""
    is_data = isinstance(masker, type) or hasattr(masker, "__array__")  # arrays have a method `view`, too
    if is_data or not (callable(masker) or hasattr(masker, "view")):
        raise TypeError(f"masker must be a masker such as BlindSpot(rho=0.3), got {masker!r}")
    return masker if hasattr(masker, "view") else FunctionMasker(masker)  # type: ignore[arg-type]
