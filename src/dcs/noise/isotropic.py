"""Isotropic noise laws (assumption A2): a uniform direction times a random length."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import torch
from torch import Generator, Tensor

from dcs._checks import check_generator, check_integer, check_number, check_tensor


class IsotropicNoise(ABC):
    """Zero-mean noise whose density depends on its length alone, with unit variance per entry.

    A law is defined by its length: subclass this and implement `radius`, or pass a sampler to `Radial`.
    """

    @abstractmethod
    def radius(self, dim: Tensor, generator: Generator | None = None) -> Tensor:
        """Draw one length ‖ε‖ for each element of `dim`, the dimension; E‖ε‖² must be `dim`."""

    def gaussian_scales(self) -> tuple[Sequence[float], Sequence[float]] | None:
        """Return scales and probabilities if the law is a finite mixture of Gaussians, for the exact k."""
        return None

    def sample(
        self,
        shape: Sequence[int],
        generator: Generator | None = None,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> Tensor:
        """Draw n independent noise vectors, (n, ...), each isotropic over all entries of a sample."""
        check_generator(generator, torch.device(device))
        if isinstance(shape, str) or not isinstance(shape, Sequence) or not shape:
            raise TypeError(f"shape must be a sequence of sizes (n, ...), got {shape!r}")
        for size in shape:
            check_integer("shape", size, at_least=1)
        if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
            raise TypeError(f"dtype must be a floating-point torch.dtype, got {dtype!r}")
        precise = torch.promote_types(dtype, torch.float32)
        direction = torch.randn(tuple(shape), dtype=precise, device=device, generator=generator)
        rows = direction.reshape(len(direction), -1)
        dim = rows.new_full((len(rows),), rows.shape[1])
        length = self.radius(dim, generator) / torch.linalg.vector_norm(rows, dim=1)
        noise: Tensor = (rows * length[:, None]).reshape(direction.shape)
        return noise.to(dtype)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Gaussian(IsotropicNoise):
    """N(0, I): the only isotropic law whose entries are independent."""

    def radius(self, dim: Tensor, generator: Generator | None = None) -> Tensor:
        """Draw from the chi law with `dim` degrees of freedom."""
        check_tensor("dim", dim)
        # The only gamma sampler of torch that takes a generator; torch.distributions calls it as well.
        return (2 * torch._standard_gamma((dim / 2).contiguous(), generator=generator)).sqrt()

    def gaussian_scales(self) -> tuple[Sequence[float], Sequence[float]]:
        """Return one Gaussian of scale 1."""
        return [1.0], [1.0]


class Sphere(IsotropicNoise):
    """Uniform on the sphere of radius √D: noise of a fixed length.

    Example:
        >>> Sphere().sample((2, 100)).norm(dim=1).round(decimals=3)
        tensor([10., 10.])
    """

    def radius(self, dim: Tensor, generator: Generator | None = None) -> Tensor:  # noqa: ARG002
        """Return √D."""
        check_tensor("dim", dim)
        return dim.sqrt()


class GaussianScaleMixture(IsotropicNoise):
    """Gaussian noise whose scale S is drawn for each vector (Remark 2).

    Args:
        scales: Values of S, which are rescaled to E[S²] = 1.
        probabilities: Probability of each value; equal by default.
    """

    def __init__(self, scales: Sequence[float], probabilities: Sequence[float] | None = None) -> None:
        values = _positive("scales", scales)
        weights = _positive("probabilities", [1.0] * len(values) if probabilities is None else probabilities)
        if weights.shape != values.shape:
            raise ValueError(f"probabilities must be {len(values)}, one per scale, got {probabilities!r}")
        weights = weights / weights.sum()
        values = values / (weights * values.square()).sum().sqrt()
        self.scales: list[float] = values.tolist()
        self.probabilities: list[float] = weights.tolist()

    def radius(self, dim: Tensor, generator: Generator | None = None) -> Tensor:
        """Draw a scale, then a Gaussian length of that scale."""
        ends = torch.tensor(self.probabilities, dtype=dim.dtype, device=dim.device).cumsum(0)[:-1]
        uniform = torch.rand(dim.shape, dtype=dim.dtype, device=dim.device, generator=generator)
        scales = torch.tensor(self.scales, dtype=dim.dtype, device=dim.device)
        return scales[torch.bucketize(uniform, ends, right=True)] * Gaussian().radius(dim, generator)

    def gaussian_scales(self) -> tuple[Sequence[float], Sequence[float]]:
        """Return the mixture itself."""
        return self.scales, self.probabilities

    def __repr__(self) -> str:
        return f"GaussianScaleMixture({self.scales}, {self.probabilities})"


class Radial(IsotropicNoise):
    """Custom isotropic law, defined by a sampler of its length.

    Args:
        sample_radius: Function of a tensor of dimensions and a generator (or None) that returns one length
            for each, with E‖ε‖² = dim, which is checked by simulation.

    Example:
        >>> half_or_more = Radial(lambda dim, generator: (dim * (0.5 + torch.rand(
        ...     dim.shape, dtype=dim.dtype, generator=generator))).sqrt())
        >>> half_or_more.sample((3, 5)).shape
        torch.Size([3, 5])
    """

    def __init__(self, sample_radius: Callable[[Tensor, Generator | None], Tensor]) -> None:
        if not callable(sample_radius):
            raise TypeError(f"sample_radius must be callable, got {type(sample_radius).__name__}")
        self._sample_radius = sample_radius
        for dim in (2, 50):
            dims = torch.full((20_000,), float(dim), dtype=torch.float64)
            square = self.radius(dims, torch.Generator().manual_seed(0)).square() / dim
            error = 6 * float(square.std()) / len(dims) ** 0.5 + 0.01
            if not abs(float(square.mean()) - 1) <= error:
                raise ValueError(
                    f"sample_radius must have E‖ε‖² = dim, but at dim = {dim} the mean of ‖ε‖²/dim is "
                    f"{float(square.mean()):.3g}: divide the lengths by {float(square.mean()) ** 0.5:.3g}"
                )

    def radius(self, dim: Tensor, generator: Generator | None = None) -> Tensor:
        """Draw from the given sampler."""
        length = self._sample_radius(dim, generator)
        if not isinstance(length, Tensor) or length.shape != dim.shape or not bool((length >= 0).all()):
            got = f"shape {tuple(length.shape)}" if isinstance(length, Tensor) else type(length).__name__
            raise ValueError(
                f"sample_radius must return a tensor of one length >= 0 for each dimension, "
                f"{tuple(dim.shape)}, got {got}"
            )
        return length


def _positive(name: str, numbers: Sequence[float]) -> Tensor:
    """Return positive numbers in float64, divided by their largest, so that no sum of them overflows."""
    if isinstance(numbers, str) or not isinstance(numbers, Sequence) or not numbers:
        raise TypeError(f"{name} must be a list of positive numbers, got {numbers!r}")
    for number in numbers:
        check_number(name, number, above=0)
    values = torch.tensor([float(number) for number in numbers], dtype=torch.float64)
    return values / values.max()
