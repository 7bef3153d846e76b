"""Linear protocol: accuracy of a linear classifier on the features of a frozen encoder."""

import time
from typing import Any

import torch

from dcs._checks import check_choice, check_integer, check_number
from dcs.evaluation._features import check_widths, features_of, labelled, numbered
from dcs.evaluation._heads import fit_lbfgs, fit_sgd
from dcs.evaluation._result import Result, versions


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
    (x, y), (test_x, test_y) = labelled(train, "train"), labelled(test, "test")
    classes, (targets, test_targets) = numbered(y, test_y)
    z, test_z = (torch.from_numpy(features_of(encoder, *part)) for part in ((x, "train"), (test_x, "test")))
    check_widths(z, test_z)
    settings: dict[str, Any] = {"head": head}
    if head == "lbfgs":
        settings |= {"C": C, "max_iter": max_iter, "standardised": True}
        found = fit_lbfgs(z, targets, len(classes), inverse_penalty=C, max_iter=max_iter)
    else:
        settings |= {"learning_rate": learning_rate, "epochs": epochs, "batch_size": batch_size}
        recipe = {"learning_rate": learning_rate, "epochs": epochs, "batch_size": batch_size, "seed": seed}
        found = fit_sgd(z, targets, len(classes), **recipe)  # type: ignore[arg-type]
    settings |= {"train": len(z), "test": len(test_z), "features": z.shape[1], "classes": len(classes)}
    return Result(
        "linear",
        found.accuracy(test_z, test_targets),
        {"train_accuracy": found.accuracy(z, targets)},
        settings,
        seed if head == "sgd" else None,
        time.perf_counter() - start,
        versions(),
    )
