"""Linear protocol: accuracy of a linear classifier on the features of a frozen encoder.

The classifier is multinomial logistic regression by L-BFGS, or trained by SimSiam's recipe for SGD.
"""

import math
import time
import warnings
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits
from torch import Generator, Tensor

from dcs._checks import check_choice, check_integer, check_number
from dcs.evaluation._features import features_and_labels
from dcs.evaluation._result import Result

_TOLERANCE = 1e-6  # largest entry of the gradient, in whitened coordinates
_FAR = 100  # multiple of the tolerance that means more than rounding error


def linear(
    train: Any,
    test: Any,
    encoder: Any = None,
    *,
    head: str = "lbfgs",
    C: float = 1.0,  # noqa: N803  (as scikit-learn calls it)
    max_iter: int = 1000,
    learning_rate: float = 30.0,
    epochs: int = 100,
    batch_size: int = 256,
    seed: int = 0,
) -> Result:
    """Train a linear classifier on the features of training samples, and score it on test samples.

    Args:
        train: Labelled training samples: a `dcs.data.Split`, or (x, y).
        test: Labelled test samples, likewise.
        encoder: Encoder of x: a `DenoisingEncoder`, a module (used in evaluation mode, and not changed), or a
            function. None if x holds features.
        head: Classifier: `lbfgs` is multinomial logistic regression on standardised features, `sgd` is
            SimSiam's recipe, on features that are not standardised.
        C: Inverse strength of the penalty of `lbfgs`, as in scikit-learn.
        max_iter: Maximum number of iterations of `lbfgs`.
        learning_rate: Learning rate of `sgd`, for batches of 256.
        epochs: Number of epochs of `sgd`.
        batch_size: Samples per step of `sgd`.
        seed: Random seed of `sgd`, for weights and sample order.

    Returns:
        The accuracy on `test` in percent; `metrics` has that on `train`.

    Example:
        >>> x = torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
        >>> linear((x[:100], x[:100, 0] > 0), (x[100:], x[100:, 0] > 0)).score
        99.0
    """
    start = time.perf_counter()
    check_choice("head", head, ("lbfgs", "sgd"))
    check_number("C", C, above=0)
    check_number("learning_rate", learning_rate, above=0)
    for name, value in (("max_iter", max_iter), ("epochs", epochs), ("batch_size", batch_size)):
        check_integer(name, value, at_least=1)
    check_integer("seed", seed, at_least=0)
    z, targets, test_z, test_targets, sizes = features_and_labels(train, test, encoder)
    settings: dict[str, Any]
    if head == "lbfgs":
        settings = {"C": C, "max_iter": max_iter, "standardised": True}
        found = fit_lbfgs(z, targets, sizes["classes"], inverse_penalty=C, max_iter=max_iter)
    else:
        settings = {"learning_rate": learning_rate, "epochs": epochs, "batch_size": batch_size}
        found = fit_sgd(z, targets, sizes["classes"], **settings, seed=seed)
    return Result(
        "linear",
        found.accuracy(test_z, test_targets),
        {"train_accuracy": found.accuracy(z, targets)},
        {"head": head, **settings, **sizes},
        seed if head == "sgd" else None,
        time.perf_counter() - start,
    )


class Linear(NamedTuple):
    """Linear classifier, argmax (x − mean)/scale · weight + bias."""

    weight: Tensor
    bias: Tensor
    mean: Tensor
    scale: Tensor

    def logits(self, x: Tensor) -> Tensor:
        """Compute the logits of features (n, d)."""
        return torch.addmm(self.bias, (x.to(self.weight) - self.mean) / self.scale, self.weight)

    def accuracy(self, x: Tensor, y: Tensor) -> float:
        """Return the percentage of samples that are classified correctly."""
        return 100 * float((self.logits(x).argmax(1) == y).double().mean())


def fit_lbfgs(x: Tensor, y: Tensor, classes: int, *, inverse_penalty: float, max_iter: int) -> Linear:
    """Minimise the mean cross-entropy plus ‖weight‖²/(2·inverse_penalty·n) on standardised features.

    This is scikit-learn's LogisticRegression(C=inverse_penalty) after a StandardScaler; the bias is not
    penalised. The search is done in whitened coordinates, where it takes fewer steps.
    """
    n = len(x)
    x = x.double()
    largest = x.abs().amax(0)
    size = torch.where(largest > 0, largest, 1.0)
    z = x / size  # so that squares neither overflow nor underflow
    mean, scale = z.mean(0), z.std(0, correction=0)
    scale = torch.where(scale > 1e-12, scale, 1.0)  # 1 for constant features
    z = (z - mean) / scale
    penalty = 1 / (inverse_penalty * n)
    values, vectors = torch.linalg.eigh(z.T @ z / n)
    whiten = vectors / (values.clamp(min=0) + 2 * penalty).sqrt()
    # Samples are columns here, and classes rows: sums over the few classes then run along memory.
    columns = torch.cat([(z @ whiten).T, z.new_ones(1, n)]).contiguous()
    d = x.shape[1]
    of_class = torch.zeros(classes, d + 1, dtype=z.dtype).index_add_(0, y, columns.T) / n

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        theta = torch.from_numpy(flat).view(classes, d + 1)
        likely = theta @ columns
        largest = likely.amax(0)
        likely.sub_(largest).exp_()
        total = likely.sum(0)
        likely.div_(total)
        weight = theta[:, :-1] @ whiten.T
        loss = (total.log_().sum() + largest.sum()) / n - (theta * of_class).sum()
        gradient = likely @ columns.T / n - of_class
        gradient[:, :-1] += penalty * (weight @ whiten)
        return float(loss + penalty / 2 * weight.square().sum()), gradient.numpy().ravel()

    start = np.zeros((d + 1) * classes)
    most = {"maxiter": max_iter, "maxfun": 20 * max_iter}
    options = {"gtol": _TOLERANCE, "ftol": 0.0, "maxcor": 20, **most}
    # BLAS threads of SciPy would only wait for torch's in a busy loop.
    with threadpool_limits(1, user_api="blas"):
        found = minimize(objective, start, method="L-BFGS-B", jac=True, options=options)
    if found.nit >= max_iter:
        warnings.warn(
            f"logistic regression stopped after {max_iter} iterations: raise max_iter", stacklevel=3
        )
    elif not found.success and np.abs(found.jac).max() > _FAR * _TOLERANCE:
        warnings.warn(f"logistic regression did not converge ({found.message})", stacklevel=3)
    theta = torch.from_numpy(found.x).view(classes, d + 1).T
    return Linear(whiten @ theta[:-1], theta[-1], mean * size, scale * size)


def fit_sgd(
    x: Tensor, y: Tensor, classes: int, *, learning_rate: float, epochs: int, batch_size: int, seed: int
) -> Linear:
    """Train as SimSiam's linear evaluation: SGD, momentum 0.9, cosine schedule, weights from N(0, 0.01²).

    The learning rate is for batches of 256 and scaled with their size; features are not standardised.
    """
    x, generator = x.float(), Generator().manual_seed(int(seed))
    weight = (0.01 * torch.randn(x.shape[1], classes, generator=generator)).requires_grad_()
    bias = torch.zeros(classes, requires_grad=True)
    optimizer = torch.optim.SGD([weight, bias], lr=0.0, momentum=0.9)
    for epoch in range(epochs):
        rate = learning_rate * batch_size / 256 * 0.5 * (1 + math.cos(math.pi * epoch / epochs))
        optimizer.param_groups[0]["lr"] = rate
        for rows in torch.randperm(len(x), generator=generator).split(batch_size):
            loss = torch.nn.functional.cross_entropy(torch.addmm(bias, x[rows], weight), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    if not bool(weight.isfinite().all()):
        raise ValueError(
            f"head sgd has diverged with learning_rate {learning_rate:g}: lower it, or scale the features, "
            f"which are as large as {float(x.abs().max()):.3g}"
        )
    zeros = torch.zeros(x.shape[1])
    return Linear(weight.detach(), bias.detach(), zeros, zeros + 1)
