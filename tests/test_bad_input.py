"""Every bad argument is a ValueError or TypeError that names it; nothing turns into NaN in silence."""

import inspect
import math
import re
import signal

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dcs.augmentation
import dcs.data
import dcs.inspection
import dcs.masking
import dcs.noise
from dcs import functional as F
from tests.helpers import seeded

NAN, INF = math.nan, math.inf


def spoilt(x, value):
    """A copy of x with one bad entry."""
    x = x.clone()
    x.view(-1)[-1] = value
    return x


def blind_spot(x=None, generator=None, valid=None, **options):
    return dcs.masking.BlindSpot(**options)(x, generator, valid=valid)


def amplitude_neighbors(x=None, generator=None, valid=None, **options):
    return dcs.masking.AmplitudeNeighbors(**options)(x, generator, valid=valid)


def gaussian_split(x=None, generator=None, valid=None, sigma=0.5, **options):
    views = torch.stack(dcs.noise.GaussianSplit(sigma, **options)(x, generator, valid=valid))
    return views if valid is None else views.where(valid.bool(), 0)  # padding may hold anything


def look(x=None, **options):
    found = dcs.inspection.inspect(x, **options)
    return torch.tensor([found.sigma.value or 0.0, found.signal])


def log_mel(x=None, lengths=None, rate=800, **options):
    mel = dcs.data.LogMel(rate, **options)
    mel = mel.fit(WAVES) if mel.mean is None else mel
    return mel(x, lengths)


def views(x=None, generator=None, **options):
    return dcs.augmentation.Views(**options)(x, generator)


def sample(law=None, **options):
    return (law or dcs.noise.Sphere()).sample(**options)


def radius(law=None, dim=None, generator=None):
    return law.radius(dim, generator)


def sqrt_dim(dim, generator):
    return dim.sqrt()


class NoScales:
    """A law with a length but not the other half of the protocol."""

    def radius(self, dim, generator):
        return dim.sqrt()


# Each public function and class, with arguments that are right.
X = torch.randn(3, 5, generator=seeded())
X_TILDE = torch.randn(3, 5, generator=seeded(1))
IMAGES = torch.randn(6, 12, 12, generator=seeded(2))
PICTURES = torch.randn(6, 32, 32, generator=seeded(2))
WAVES = torch.randn(3, 400, generator=seeded(3))
COLOURS = torch.rand(4, 3, 12, 12, generator=seeded(3))
MASK = torch.tensor([[1, 0, 1, 1, 0]]).bool().expand(3, 5)
CALLS = {
    "cosine_loss": (F.cosine_loss, {"target": X, "prediction": X_TILDE, "mask": MASK}),
    "denoising_cosine_loss": (
        F.denoising_cosine_loss,
        {"prediction": X_TILDE, "x": X, "x_tilde": X + X_TILDE, "mask": MASK},
    ),
    "length_loss": (F.length_loss, {"prediction": X_TILDE, "x": X, "mask": MASK}),
    "noise2void_loss": (F.noise2void_loss, {"prediction": X_TILDE, "x": X, "mask": MASK}),
    "sure_loss": (F.sure_loss, {"model": torch.tanh, "x": X, "sigma": 0.5}),
    "snr": (F.snr, {"x": X, "x_tilde": X + X_TILDE, "mask": MASK}),
    "expected_cosine": (
        F.expected_cosine,
        {"snr": torch.tensor([0.1, 1.0]), "dim": torch.tensor([2.0, 5.0])},
    ),
    "denoising_weight": (
        F.denoising_weight,
        {"snr": torch.tensor([0.1, 1.0]), "dim": torch.tensor([2.0, 5.0])},
    ),
    "BlindSpot": (blind_spot, {"x": IMAGES}),
    "AmplitudeNeighbors": (amplitude_neighbors, {"x": IMAGES}),
    "GaussianSplit": (gaussian_split, {"x": IMAGES}),
    "FunctionMasker": (dcs.masking.FunctionMasker, {"function": blind_spot}),
    "as_view_maker": (dcs.masking.as_view_maker, {"masker": blind_spot}),
    "inspect": (look, {"x": IMAGES}),
    "LogMel": (log_mel, {"x": WAVES, "frame": 64, "hop": 32, "mels": 8}),
    "Views": (views, {"x": COLOURS, "jitter_share": 0.0}),
    "add": (dcs.noise.add, {"x": X.abs(), "kind": "gaussian", "sigma": 0.5}),
    "estimate_sigma": (dcs.noise.estimate_sigma, {"x": IMAGES}),
    "quiet_share": (dcs.noise.quiet_share, {"x": IMAGES, "sigma": 0.3}),
    "sigma_by_brightness": (dcs.noise.sigma_by_brightness, {"x": PICTURES}),
    "Gaussian": (sample, {"law": dcs.noise.Gaussian(), "shape": (2, 3)}),
    "Sphere": (sample, {"law": dcs.noise.Sphere(), "shape": (2, 3)}),
    "GaussianScaleMixture": (dcs.noise.GaussianScaleMixture, {"scales": [1.0, 2.0]}),
    "Radial": (dcs.noise.Radial, {"sample_radius": sqrt_dim}),
    "Gaussian.radius": (radius, {"law": dcs.noise.Gaussian(), "dim": torch.tensor([2.0])}),
    "Sphere.radius": (radius, {"law": dcs.noise.Sphere(), "dim": torch.tensor([2.0])}),
}


def call(name, **changed):
    function, right = CALLS[name]
    return function(**{**right, **changed})


# What is wrong with an argument, and the error it should be.
NOT_A_TENSOR = [
    (X.numpy(), TypeError),
    ([[1.0, 2.0]], TypeError),
    (None, TypeError),
    ("a", TypeError),
    (1.0, TypeError),
]
BAD_DATA = [
    *NOT_A_TENSOR,
    (torch.ones(3, 5, dtype=torch.int64), TypeError),
    (torch.ones(3, 5, dtype=torch.bool), TypeError),
    (torch.ones(3, 5, dtype=torch.complex64), TypeError),
    (torch.ones(()), ValueError),
    (torch.ones(0, 5), ValueError),
    (torch.ones(3, 0), ValueError),
    (spoilt(X, NAN), ValueError),
    (spoilt(X, INF), ValueError),
    (spoilt(X, -INF), ValueError),
]
BAD_IMAGES = [
    *NOT_A_TENSOR,
    (IMAGES.long(), TypeError),
    (torch.ones(()), ValueError),
    (IMAGES[:0], ValueError),
    (IMAGES[:, :0], ValueError),
    (spoilt(IMAGES, NAN), ValueError),
    (spoilt(IMAGES, INF), ValueError),
]
WRONG_SHAPE = [(torch.ones(3, 4), ValueError), (torch.ones(5), ValueError), (torch.ones(3, 5, 1), ValueError)]
BAD_MASK = [
    (MASK.numpy(), TypeError),
    ([1, 0, 1], TypeError),
    (1, TypeError),
    (torch.full((3, 5), 0.5), ValueError),
    (torch.full((3, 5), 2), ValueError),
    (torch.full((3, 5), -1), ValueError),
    (torch.full((3, 5), NAN), ValueError),
    (torch.ones(3, 4), ValueError),
    (torch.ones(2, 5), ValueError),
    (torch.ones(5), ValueError),
    (torch.ones(()), ValueError),
    (torch.ones(3, 5, 1), ValueError),
    (torch.ones(0, 5), ValueError),
]
BAD_VALID = [case for case in BAD_MASK if case[1] is TypeError or case[0].shape != (3, 5)] + [
    (torch.full((6, 12, 12), 0.5), ValueError)
]
BAD_NUMBER = [("a", TypeError), (None, TypeError), ([0.5], TypeError), (True, TypeError), (NAN, ValueError)]
BAD_POSITIVE = [*BAD_NUMBER, (0, ValueError), (-1.0, ValueError), (INF, ValueError), (10**400, ValueError)]
BAD_SHARE = [*BAD_NUMBER, (0, ValueError), (1.5, ValueError), (-0.1, ValueError), (INF, ValueError)]
BAD_PROBABILITY = [*BAD_NUMBER, (1.5, ValueError), (-0.1, ValueError), (INF, ValueError)]
BAD_PAIR = [
    (None, TypeError),
    (0.5, TypeError),
    ("ab", TypeError),
    ((), TypeError),
    (("a", "b"), TypeError),
    ((0.5, NAN), (TypeError, ValueError)),
]
BAD_COUNT = [
    ("a", TypeError),
    (None, TypeError),
    (1.0, TypeError),
    (True, TypeError),
    (0, ValueError),
    (-1, ValueError),
]
BAD_GENERATOR = [
    (0, TypeError),
    ("a", TypeError),
    (np.random.default_rng(0), TypeError),
    (torch.Generator, TypeError),
]
BAD_NAME = [("", ValueError), ("Mean", ValueError), (None, ValueError), (1, ValueError)]
BAD_LAW = [
    ("laplace", ValueError),
    (None, ValueError),
    (3, ValueError),
    (dcs.noise.Sphere, (ValueError, TypeError)),
]
BAD_SNR = [
    (torch.tensor([-0.1, 1.0]), ValueError),
    (torch.tensor([NAN, 1.0]), ValueError),
    (torch.tensor([-INF, 1.0]), ValueError),
    (torch.tensor([1, 2]), TypeError),
    (np.array([0.1, 1.0]), TypeError),
    ("a", TypeError),
    (None, TypeError),
]
BAD_DIM = [
    (torch.tensor([0.0, 2.0]), ValueError),
    (torch.tensor([-1, 2]), ValueError),
    (torch.tensor([NAN, 2.0]), ValueError),
    (torch.tensor([INF, 2.0]), ValueError),
    (torch.tensor([1.0, 2.0, 3.0]), ValueError),
    ("a", TypeError),
]

NOT_A_FUNCTION = [(None, TypeError), (3, TypeError), ("a", TypeError), (MASK, TypeError)]
BAD = {
    ("inspect", "x"): [
        (None, TypeError),
        ({"x": X}, TypeError),
        (1.0, ValueError),
        (torch.ones(()), ValueError),
        (IMAGES[:0], ValueError),
        (IMAGES[:, :0], ValueError),
        (spoilt(IMAGES, NAN), ValueError),
        (spoilt(IMAGES, INF), ValueError),
        (IMAGES.to(torch.complex64), ValueError),
    ],
    ("inspect", "samples"): BAD_COUNT,
    ("inspect", "domain"): [("", ValueError), ("image", ValueError), (1, ValueError)],
    ("inspect", "seed"): [case for case in BAD_COUNT if case[0] != 0 or case[0] is True],
    ("cosine_loss", "target"): [*BAD_DATA],
    ("cosine_loss", "prediction"): [*BAD_DATA, *WRONG_SHAPE],
    ("cosine_loss", "mask"): BAD_MASK,
    ("cosine_loss", "valid"): BAD_MASK,
    ("cosine_loss", "eps"): BAD_POSITIVE,
    ("cosine_loss", "reduction"): BAD_NAME,
    ("denoising_cosine_loss", "prediction"): [*BAD_DATA, *WRONG_SHAPE],
    ("denoising_cosine_loss", "x"): BAD_DATA,
    ("denoising_cosine_loss", "x_tilde"): [*BAD_DATA, *WRONG_SHAPE],
    ("denoising_cosine_loss", "mask"): BAD_MASK,
    ("denoising_cosine_loss", "valid"): BAD_MASK,
    ("denoising_cosine_loss", "method"): BAD_NAME,
    ("denoising_cosine_loss", "floor"): BAD_SHARE,
    ("denoising_cosine_loss", "power"): [*BAD_NUMBER, (INF, ValueError)],
    ("denoising_cosine_loss", "reduction"): BAD_NAME,
    ("denoising_cosine_loss", "noise"): BAD_LAW,
    ("denoising_cosine_loss", "samples"): BAD_COUNT,
    ("denoising_cosine_loss", "eta"): [case for case in BAD_POSITIVE if case[0] is not None],
    ("denoising_cosine_loss", "variant"): BAD_NAME,
    ("denoising_cosine_loss", "snr"): [
        (torch.tensor([-0.1, 1.0, 1.0]), ValueError),
        (torch.tensor([NAN, 1.0, 1.0]), ValueError),
        (torch.ones(2), ValueError),
        (torch.ones(3, 1), ValueError),
        (torch.ones(()), ValueError),
        (torch.tensor([1, 2, 3]), TypeError),
        (np.ones(3), TypeError),
        (1.0, TypeError),
    ],
    ("denoising_cosine_loss", "eps"): BAD_POSITIVE,
    ("denoising_cosine_loss", "generator"): BAD_GENERATOR,
    ("length_loss", "prediction"): [*BAD_DATA, *WRONG_SHAPE],
    ("length_loss", "x"): BAD_DATA,
    ("length_loss", "mask"): BAD_MASK,
    ("length_loss", "valid"): BAD_MASK,
    ("length_loss", "reduction"): BAD_NAME,
    ("noise2void_loss", "prediction"): [*BAD_DATA, *WRONG_SHAPE],
    ("noise2void_loss", "x"): BAD_DATA,
    ("noise2void_loss", "mask"): BAD_MASK,
    ("noise2void_loss", "valid"): BAD_MASK,
    ("noise2void_loss", "reduction"): BAD_NAME,
    ("sure_loss", "model"): [
        (3, TypeError),
        (None, TypeError),
        (lambda x: None, TypeError),
        (lambda x: x.detach().numpy(), TypeError),
        (lambda x: x.long(), TypeError),
        (lambda x: x[:, :2], ValueError),
        (lambda x: x.sum(), ValueError),
        (lambda x: x * NAN, ValueError),
        (lambda x: x / 0, ValueError),
    ],
    ("sure_loss", "x"): BAD_DATA,
    ("sure_loss", "sigma"): [
        *BAD_NUMBER,
        (-0.1, ValueError),
        (INF, ValueError),
        (1e30, ValueError),
        (np.ones(3), TypeError),
        (torch.tensor([1, 2, 3]), TypeError),
        (torch.tensor([0.1, -0.1, 0.1]), ValueError),
        (torch.tensor([0.1, NAN, 0.1]), ValueError),
        (torch.tensor([0.1, INF, 0.1]), ValueError),
        (torch.ones(4), ValueError),
        (torch.ones(2, 5), ValueError),
        (torch.ones(2, 3, 5), ValueError),
    ],
    ("sure_loss", "step"): [*BAD_POSITIVE, (1e-9, ValueError)],
    ("sure_loss", "valid"): BAD_MASK,
    ("sure_loss", "generator"): BAD_GENERATOR,
    ("sure_loss", "reduction"): BAD_NAME,
    ("snr", "x"): BAD_DATA,
    ("snr", "x_tilde"): [*BAD_DATA, *WRONG_SHAPE],
    ("snr", "mask"): BAD_MASK,
    ("snr", "valid"): BAD_MASK,
    ("expected_cosine", "snr"): [
        *BAD_SNR,
        (NAN, ValueError),
        (-1, ValueError),
        ([0.5], TypeError),
        (True, TypeError),
    ],
    ("expected_cosine", "dim"): [
        *BAD_DIM,
        (0, ValueError),
        (-3, ValueError),
        (NAN, ValueError),
        (None, TypeError),
    ],
    ("expected_cosine", "full_dim"): [
        (1, ValueError),
        (torch.tensor([5.0, 4.0]), ValueError),
        (torch.tensor([NAN, 9.0]), ValueError),
        (torch.tensor([INF, 9.0]), ValueError),
        (torch.full((3,), 9.0), ValueError),
        ("a", TypeError),
    ],
    ("expected_cosine", "method"): BAD_NAME,
    ("expected_cosine", "noise"): [*BAD_LAW, (NoScales(), (ValueError, TypeError))],
    ("expected_cosine", "samples"): BAD_COUNT,
    ("expected_cosine", "generator"): BAD_GENERATOR,
    ("denoising_weight", "snr"): BAD_SNR,
    ("denoising_weight", "dim"): BAD_DIM,
    ("denoising_weight", "full_dim"): [
        (torch.tensor([5.0, 4.0]), ValueError),
        (torch.tensor([NAN, 9.0]), ValueError),
        (torch.full((3,), 9.0), ValueError),
        ("a", TypeError),
    ],
    ("denoising_weight", "method"): BAD_NAME,
    ("denoising_weight", "noise"): BAD_LAW,
    ("denoising_weight", "samples"): BAD_COUNT,
    ("denoising_weight", "floor"): BAD_SHARE,
    ("denoising_weight", "power"): [*BAD_NUMBER, (INF, ValueError)],
    ("denoising_weight", "eta"): [case for case in BAD_POSITIVE if case[0] is not None],
    ("denoising_weight", "variant"): BAD_NAME,
    ("denoising_weight", "generator"): BAD_GENERATOR,
    ("BlindSpot", "x"): [*BAD_IMAGES, (X, ValueError)],
    ("BlindSpot", "rho"): BAD_SHARE,
    ("BlindSpot", "radius"): [*BAD_COUNT, ((1,), ValueError), ((1, 0), ValueError), ((1, 1.5), TypeError)],
    ("BlindSpot", "ndim"): [
        (0, ValueError),
        (4, ValueError),
        ("a", ValueError),
        (None, ValueError),
        (2.0, TypeError),
    ],
    ("BlindSpot", "min_masked"): [("a", TypeError), (1.5, TypeError), (-1, ValueError), (145, ValueError)],
    ("BlindSpot", "valid"): BAD_VALID,
    ("BlindSpot", "generator"): BAD_GENERATOR,
    ("FunctionMasker", "function"): NOT_A_FUNCTION,
    ("as_view_maker", "masker"): [*NOT_A_FUNCTION, (dcs.masking.BlindSpot, TypeError)],
    ("GaussianSplit", "x"): BAD_IMAGES,
    ("GaussianSplit", "sigma"): [
        ("a", TypeError),
        (-1.0, ValueError),
        (NAN, ValueError),
        (torch.tensor([0.1, -0.1]), ValueError),
        (torch.ones(5), ValueError),
        (torch.tensor(1), TypeError),
    ],
    ("GaussianSplit", "alpha"): [*BAD_POSITIVE, (1e3, ValueError)],
    ("GaussianSplit", "valid"): BAD_VALID,
    ("GaussianSplit", "generator"): BAD_GENERATOR,
    ("AmplitudeNeighbors", "x"): [*BAD_IMAGES, (X[0], ValueError)],
    ("AmplitudeNeighbors", "rho"): BAD_SHARE,
    ("AmplitudeNeighbors", "delta"): [*BAD_COUNT, (7, ValueError)],
    ("AmplitudeNeighbors", "axis"): [
        (0, ValueError),
        (3, ValueError),
        (-3, ValueError),
        (-200, ValueError),
        ("a", TypeError),
        (1.0, TypeError),
        (None, TypeError),
    ],
    ("AmplitudeNeighbors", "min_masked"): [
        ("a", TypeError),
        (1.5, TypeError),
        (-1, ValueError),
        (145, ValueError),
    ],
    ("AmplitudeNeighbors", "valid"): BAD_VALID,
    ("AmplitudeNeighbors", "generator"): BAD_GENERATOR,
    ("LogMel", "x"): [
        *NOT_A_TENSOR,
        (WAVES.long(), TypeError),
        (WAVES[0], ValueError),
        (WAVES[:0], ValueError),
        (WAVES[:, :63], ValueError),
        (WAVES[:, :, None], ValueError),
        (spoilt(WAVES, NAN), ValueError),
        (spoilt(WAVES, INF), ValueError),
    ],
    ("LogMel", "lengths"): [
        ([400, 400, 400], ValueError),
        (torch.full((2,), 400), ValueError),
        (torch.full((3,), 400.0), ValueError),
        (torch.tensor([0, 400, 400]), ValueError),
        (torch.tensor([401, 400, 400]), ValueError),
    ],
    ("LogMel", "rate"): BAD_COUNT,
    ("LogMel", "frame"): [
        *(case for case in BAD_COUNT if case[0] is not None),
        (1, ValueError),
        (401, ValueError),
    ],
    ("LogMel", "hop"): [case for case in BAD_COUNT if case[0] is not None],
    ("LogMel", "mels"): [*(case for case in BAD_COUNT if case[0] is not None), (100, ValueError)],
    ("LogMel", "low"): [*BAD_NUMBER, (-1.0, ValueError), (400.0, ValueError), (INF, ValueError)],
    ("LogMel", "high"): [
        *(case for case in BAD_POSITIVE if case[0] is not None),
        (401.0, ValueError),
    ],
    ("LogMel", "amin"): BAD_POSITIVE,
    ("LogMel", "top_db"): [case for case in BAD_POSITIVE if case[0] is not None],
    ("LogMel", "standardise"): BAD_NAME,
    ("LogMel", "mean"): [
        ([0.0] * 8, ValueError),  # without a deviation
        (3.0, ValueError),
    ],
    ("LogMel", "deviation"): [([1.0] * 8, ValueError), (3.0, ValueError)],
    ("Views", "x"): [
        *BAD_DATA,
        (COLOURS[:0], ValueError),
        (COLOURS[:, :2], ValueError),
        (spoilt(COLOURS, NAN), ValueError),
        (spoilt(COLOURS, INF), ValueError),
        (255 * COLOURS, ValueError),
    ],
    ("Views", "generator"): BAD_GENERATOR,
    ("Views", "scale"): [
        *BAD_PAIR,
        ((0.0, 1.0), ValueError),
        ((0.5, 1.5), ValueError),
        ((1, 0.2), ValueError),
    ],
    ("Views", "ratio"): [*BAD_PAIR, ((0.0, 1.0), ValueError), ((2, 1), ValueError)],
    **{("Views", name): BAD_PROBABILITY for name in ("flip", "jitter_share", "grey", "blur")},
    ("Views", "jitter"): [
        *BAD_PAIR,
        ((0.4, 0.4, 0.4), TypeError),
        ((0.4, 0.4, 0.4, 0.6), ValueError),
        ((-0.1, 0.4, 0.4, 0.1), ValueError),
        ((1.1, 0.4, 0.4, 0.1), ValueError),
    ],
    ("Views", "mean"): [*BAD_PAIR, ((0.1, 0.2), TypeError), ((0.1, NAN, 0.2), ValueError)],
    ("Views", "std"): [*BAD_PAIR, ((0.1, 0.2), TypeError), ((0.1, 0.0, 0.2), ValueError), ((1,), ValueError)],
    ("add", "x"): [
        *(case for case in BAD_DATA if not isinstance(case[0], np.ndarray)),
        (np.ones((3, 5), dtype=int), TypeError),
        (np.array(1.0), ValueError),
        (np.ones((0, 5)), ValueError),
        (np.array([["a"]]), TypeError),
        (np.array([[NAN]]), ValueError),
        (np.ones((3, 5), dtype=np.longdouble), TypeError),
    ],
    ("add", "kind"): [*BAD_NAME, (dcs.noise.Sphere, ValueError), (["gaussian"], ValueError)],
    ("add", "sigma"): [*BAD_NUMBER, (-0.1, ValueError), (INF, ValueError), (torch.tensor(0.1), TypeError)],
    ("add", "seed"): [
        ("a", TypeError),
        (None, TypeError),
        (1.0, TypeError),
        (-1, ValueError),
        (2**64, ValueError),
    ],
    ("add", "length"): BAD_POSITIVE,
    ("estimate_sigma", "x"): [
        *(case for case in BAD_IMAGES if not isinstance(case[0], np.ndarray)),
        (IMAGES.long().numpy(), TypeError),
        (IMAGES.numpy()[:0], ValueError),
        (np.array([["a"]]), TypeError),
        (np.array([[None]]), TypeError),
        (IMAGES.numpy().astype(np.longdouble), TypeError),
        (IMAGES.double() * 1e200, ValueError),
        (IMAGES[:1, :2, :3], ValueError),
    ],
    ("quiet_share", "x"): [case for case in BAD_IMAGES if not isinstance(case[0], np.ndarray)],
    ("quiet_share", "sigma"): BAD_POSITIVE,
    ("sigma_by_brightness", "x"): [case for case in BAD_IMAGES if not isinstance(case[0], np.ndarray)],
    ("sigma_by_brightness", "parts"): [("a", TypeError), (2.5, TypeError), (0, ValueError)],
    ("quiet_share", "ndim"): [(0, ValueError), (3, ValueError), ("a", ValueError), (1.0, TypeError)],
    ("estimate_sigma", "method"): BAD_NAME,
    ("estimate_sigma", "ndim"): [
        (0, ValueError),
        (3, ValueError),
        (-1, ValueError),
        ("a", ValueError),
        (1.0, TypeError),
    ],
    ("estimate_sigma", "patch"): [
        ("a", TypeError),
        (2.5, TypeError),
        (-1, ValueError),
        (1, ValueError),
        (0, ValueError),
    ],
    ("estimate_sigma", "stride"): [("a", TypeError), (2.5, TypeError), (-1, ValueError), (0, ValueError)],
    ("Gaussian", "generator"): BAD_GENERATOR,
    ("Gaussian", "dtype"): [(torch.int64, (TypeError, ValueError)), ("a", TypeError)],
    ("Sphere", "shape"): [
        ((), ValueError),
        ((0, 5), ValueError),
        ((2, -1), ValueError),
        ("a", TypeError),
        (None, TypeError),
        ((2.0, 3), TypeError),
    ],
    ("GaussianScaleMixture", "scales"): [
        ([], ValueError),
        ([[1.0, 2.0]], ValueError),
        ([0.0, 1.0], ValueError),
        ([-1.0, 1.0], ValueError),
        ([NAN, 1.0], ValueError),
        ([INF, 1.0], ValueError),
        (3.0, ValueError),
        ("a", (TypeError, ValueError)),
        (None, (TypeError, ValueError)),
        (["a"], (TypeError, ValueError)),
        ([None, 1.0], (TypeError, ValueError)),
    ],
    ("GaussianScaleMixture", "probabilities"): [
        ([1.0], ValueError),
        ([1.0, 1.0, 1.0], ValueError),
        ([0.0, 1.0], ValueError),
        ([-0.5, 1.5], ValueError),
        ([NAN, 1.0], ValueError),
        ([INF, 1.0], ValueError),
        (1.0, ValueError),
        ("ab", (TypeError, ValueError)),
        (["a", "b"], (TypeError, ValueError)),
    ],
    ("Radial", "sample_radius"): [
        (3, TypeError),
        (None, TypeError),
        (lambda dim, generator: 1.0, (TypeError, ValueError)),
        (lambda dim, generator: None, (TypeError, ValueError)),
        (lambda dim, generator: dim.sqrt().numpy(), (TypeError, ValueError)),
        (lambda dim, generator: dim[:1], ValueError),
        (lambda dim, generator: -dim.sqrt(), ValueError),
        (lambda dim, generator: dim * NAN, ValueError),
        (lambda dim, generator: dim * INF, ValueError),
        (lambda dim, generator: 2 * dim.sqrt(), ValueError),
        (lambda dim, generator: dim, ValueError),
        (lambda dim, generator: dim.sqrt() * (dim < 10), ValueError),
    ],
    ("Gaussian.radius", "dim"): [(4, TypeError), ("a", TypeError)],
    ("Sphere.radius", "dim"): [(4, TypeError), ("a", TypeError)],
}


def describe(value):
    """A short name for a value, the same in every process: tensors by shape, dtype and last entry."""
    if isinstance(value, torch.Tensor) and value.is_sparse:
        return "sparse"
    if isinstance(value, torch.Tensor | np.ndarray):
        last = str(value.reshape(-1)[-1:].tolist())[:6]
        return f"{type(value).__name__}{tuple(value.shape)}-{value.dtype}-{last}"
    text = inspect.getsource(value).strip() if inspect.isfunction(value) else repr(value)
    return type(value).__name__ if " at 0x" in text else re.sub(r"\s+", " ", text)[:40]


CASES = [
    pytest.param(name, argument, value, exception, id=f"{name}-{argument}-{describe(value)}")
    for (name, argument), cases in BAD.items()
    for value, exception in cases
]


FLAGS = {"centre", "clip", "stratified", "shared_channels", "whole_frames", "per_image"}
PUBLIC = [
    *((name, getattr(F, name)) for name in F.__all__),
    *((name, getattr(dcs.masking, name)) for name in dcs.masking.__all__),
    *((name, getattr(dcs.noise, name)) for name in dcs.noise.__all__),
    ("LogMel", dcs.data.LogMel),
    ("inspect", dcs.inspection.inspect),
    *((name, getattr(dcs.augmentation, name)) for name in ("Augment", "Views")),
]


def is_concrete(thing):
    if thing in (dcs.masking.VIEWS, dcs.masking.Masker, dcs.masking.View):  # registry, base class, tuple
        return False
    return not getattr(thing, "__abstractmethods__", None) and not getattr(thing, "_is_protocol", False)


@pytest.mark.parametrize("name", [name for name, thing in PUBLIC if is_concrete(thing)])
def test_every_argument_of_every_public_name_is_in_the_table(name):
    thing = dict(PUBLIC)[name]
    assert name in CALLS
    arguments = set(inspect.signature(thing).parameters) - FLAGS
    assert arguments <= {argument for listed, argument in BAD if listed == name}


@pytest.mark.parametrize("name", CALLS)
def test_the_right_arguments_are_accepted(name):
    call(name)


@pytest.mark.parametrize(("name", "argument", "value", "exception"), CASES)
def test_a_bad_argument_is_named(name, argument, value, exception):
    with pytest.raises((TypeError, ValueError), match=rf"\b{argument}\b") as caught:
        call(name, **{argument: value})
    assert re.search(
        r"must|use |use a |convert|remove|rescale|too large|has only|is lost|needs|needed", str(caught.value)
    )


@pytest.mark.parametrize("name", ["denoising_cosine_loss", "denoising_weight", "expected_cosine"])
@pytest.mark.parametrize(
    ("argument", "value", "exception"),
    [
        pytest.param(argument, value, exception, id=f"{argument}-{describe(value)}")
        for argument, cases in {"generator": BAD_GENERATOR, "noise": BAD_LAW}.items()
        for value, exception in cases
    ],
)
def test_a_bad_argument_is_named_when_it_is_used(name, argument, value, exception):
    with pytest.raises(exception, match=rf"\b{argument} must\b"):
        call(name, method="monte_carlo", **{argument: value})


@pytest.mark.parametrize("name", ["BlindSpot", "AmplitudeNeighbors"])
@pytest.mark.parametrize("argument", ["x", "valid"])
def test_maskers_name_a_bad_tensor(name, argument):
    with pytest.raises(TypeError, match=rf"\b{argument} must"):
        call(name, **{argument: IMAGES.numpy()})


@pytest.mark.parametrize(
    ("masker", "name"),
    [
        (dcs.masking.BlindSpot(radius=7), "radius"),
        (dcs.masking.BlindSpot(radius=(1, 7)), "radius"),
        (dcs.masking.BlindSpot(ndim=1, radius=100), "radius"),
        (dcs.masking.AmplitudeNeighbors(delta=7), "delta"),
        (dcs.masking.AmplitudeNeighbors(delta=7, axis=1), "delta"),
    ],
    ids=repr,
)
def test_a_window_larger_than_the_data_is_refused(masker, name):
    with pytest.raises(ValueError, match=rf"larger than the data.*smaller .*{name}"):
        masker(IMAGES)


@pytest.mark.parametrize("options", [{"min_masked": 145}, {"min_masked": 433, "shared_channels": True}])
def test_more_masked_entries_than_there_are_is_refused(options):
    with pytest.raises(ValueError, match=r"min_masked is \d+, but a sample of x has only \d+ entries"):
        blind_spot(IMAGES[:, None].expand(6, 3, 12, 12) if len(options) > 1 else IMAGES, **options)


@pytest.mark.parametrize(
    ("method", "says"),
    [("mad", "at least 8 entries"), ("chen2015", r"smaller patch|patch must")],
)
def test_images_too_small_for_an_estimate_are_refused(method, says):
    with pytest.raises(ValueError, match=says):
        dcs.noise.estimate_sigma(torch.randn(1, 7, 3), method)
    with pytest.raises(ValueError, match=says):
        dcs.noise.estimate_sigma(torch.randn(2, 1), method)


def test_specific_refusals_of_kinds_of_noise():
    with pytest.raises(ValueError, match="x must not be negative"):
        dcs.noise.add(-torch.ones(2, 3), "poisson", 0.1)
    with pytest.raises(ValueError, match="sigma must be in"):
        dcs.noise.add(torch.ones(2, 3), "salt_and_pepper", 1.1)
    with pytest.raises(ValueError, match=r"method='exact'.*monte_carlo"):
        F.denoising_cosine_loss(X, X, X_TILDE, None, noise=dcs.noise.Sphere())
    with pytest.raises(TypeError, match="radius"):
        dcs.noise.IsotropicNoise()


def test_the_culprit_is_found_behind_padding():
    """NaN in padding is allowed, so it must not be blamed for what the model did."""
    valid = torch.ones(3, 5, dtype=torch.bool)
    valid[0, 3:] = False
    x = X.masked_fill(~valid, NAN)
    with pytest.raises(ValueError, match=r"^model\(x\) has"):
        F.sure_loss(lambda v: spoilt(torch.nan_to_num(v), NAN), x, 0.1, valid=valid)
    with pytest.raises(ValueError, match=r"^prediction has 1 NaN or infinite entries"):
        F.noise2void_loss(spoilt(X, INF), x, None, valid=valid)


def test_a_model_that_fails_only_on_the_perturbed_input_is_noticed():
    outputs = iter([X, X[:, :4]])
    with pytest.raises(ValueError, match="model"):
        F.sure_loss(lambda v: next(outputs), X, 0.1)
    outputs = iter([X, None])
    with pytest.raises(TypeError, match="model"):
        F.sure_loss(lambda v: next(outputs), X, 0.1)


@pytest.mark.parametrize("name", ["cosine_loss", "denoising_cosine_loss", "noise2void_loss", "snr"])
def test_nan_outside_of_the_mask_is_still_an_error(name):
    """Only padding may hold anything: a NaN in data that was merely not compared is a mistake."""
    for argument in CALLS[name][1]:
        if argument != "mask":
            bad = X.clone()
            bad[0, 1] = NAN  # not masked
            with pytest.raises(ValueError, match=rf"^{argument} has 1 NaN"):
                call(name, **{argument: bad})


# --- legal but extreme: right, or refused, but never silently wrong


def tame(result):
    """Whether a result holds only finite numbers."""
    if isinstance(result, tuple):
        x_tilde, b = result
        return x_tilde.shape == b.shape and b.dtype == torch.bool and tame(x_tilde[b])
    if isinstance(result, dcs.noise.IsotropicNoise):
        scales, probabilities = result.gaussian_scales() or ([1.0], [1.0])
        second_moment = sum(p * s**2 for s, p in zip(scales, probabilities, strict=True))
        return abs(second_moment - 1) < 1e-9 and tame(result.sample((2, 3), seeded()))
    return bool(result.isfinite().all()) if isinstance(result, torch.Tensor) else math.isfinite(result)


def refused_or_tame(name, **changed):
    try:
        result = call(name, **changed)
    except (ValueError, TypeError):
        return True
    if name == "snr":  # infinite where the views are equal
        result = result[result != INF]
    return tame(result)


HALF = X.half()
EXTREME = [
    ("cosine_loss", {"prediction": X.double()}),
    ("cosine_loss", {"target": X.double()}),
    ("cosine_loss", {"eps": 1e-300}),
    ("cosine_loss", {"eps": 1e300}),
    ("cosine_loss", {"target": 1e30 * X}),
    ("cosine_loss", {"target": 1e-30 * X}),
    ("cosine_loss", {"target": X.to_sparse()}),
    ("denoising_cosine_loss", {"prediction": X.double()}),
    ("denoising_cosine_loss", {"x": X.double()}),
    ("denoising_cosine_loss", {"x_tilde": X.double()}),
    ("denoising_cosine_loss", {"x_tilde": -X, "floor": 1e-300}),
    ("denoising_cosine_loss", {"x_tilde": -X, "power": 1e4}),
    ("denoising_cosine_loss", {"x_tilde": -X, "eta": 1e-300}),
    ("denoising_cosine_loss", {"snr": torch.full((3,), INF)}),
    ("denoising_weight", {"floor": 1e-300, "snr": torch.zeros(2)}),
    ("denoising_weight", {"power": 1e4}),
    ("denoising_weight", {"power": -1e4, "eta": 2.0}),
    ("denoising_weight", {"eta": 1e-300, "snr": torch.zeros(2)}),
    ("noise2void_loss", {"prediction": X.double()}),
    ("noise2void_loss", {"x": 1e30 * X}),
    ("snr", {"x_tilde": X.double()}),
    ("sure_loss", {"x": HALF}),
    ("sure_loss", {"step": 1e30}),
    ("sure_loss", {"x": 1e-30 * X}),
    ("sure_loss", {"model": lambda x: x.double()}),
    ("expected_cosine", {"snr": 1e-300, "dim": 10**18}),
    ("expected_cosine", {"snr": torch.tensor([1e-38, 3e38]), "dim": 1e38}),
    ("expected_cosine", {"snr": torch.tensor([1e-38, 3e38]), "dim": 1e30, "method": "monte_carlo"}),
    ("expected_cosine", {"snr": 10**400}),
    ("expected_cosine", {"dim": 10**400}),
    ("BlindSpot", {"x": 1e38 * IMAGES}),
    ("BlindSpot", {"x": IMAGES.half()}),
    ("BlindSpot", {"rho": 1 - 1e-16}),
    ("BlindSpot", {"rho": 1e-300, "stratified": True}),
    ("add", {"sigma": 1e300}),
    ("add", {"sigma": 1e300, "kind": "speckle"}),
    ("add", {"sigma": 1e300, "kind": "poisson"}),
    ("add", {"sigma": 1e300, "kind": dcs.noise.Sphere()}),
    ("add", {"sigma": 1e6, "x": HALF}),
    ("add", {"kind": "correlated", "length": 1e-300}),
    ("add", {"kind": "correlated", "length": 1e308}),
    ("add", {"kind": "correlated", "x": torch.ones(1, 1)}),
    ("estimate_sigma", {"x": torch.zeros(9, 12, 12)}),
    ("estimate_sigma", {"x": 1e-300 * IMAGES.double()}),
    ("estimate_sigma", {"x": 1e200 * IMAGES.double(), "method": "mad"}),
    ("estimate_sigma", {"x": torch.full((9, 12, 12), 1e38)}),
    ("Gaussian", {"shape": (2, 1)}),
    ("Gaussian", {"dtype": torch.float16}),
    ("Sphere", {"dtype": torch.bfloat16}),
    ("Sphere", {"shape": (2, 0)}),
    ("GaussianScaleMixture", {"scales": [1e200, 1.0]}),
    ("GaussianScaleMixture", {"scales": [1e-200]}),
    ("GaussianScaleMixture", {"probabilities": [1e308, 1e308]}),
    ("GaussianScaleMixture", {"probabilities": [1e-308, 1.0]}),
]


@pytest.mark.parametrize(
    ("name", "changed"),
    EXTREME,
    ids=[f"{n}-{'-'.join(f'{a}={describe(v)}' for a, v in c.items())}" for n, c in EXTREME],
)
def test_extreme_values_are_refused_or_give_finite_results(name, changed):
    assert refused_or_tame(name, **changed)


@pytest.mark.parametrize("rho", [1e-6, 1e-9, 1e-12, 1e-300])
def test_masking_with_a_tiny_rho_ends(rho):
    def give_up(*_):
        pytest.fail(f"masking with rho = {rho} does not end")

    previous = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, 2)
    try:
        assert refused_or_tame("BlindSpot", rho=rho)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


@pytest.mark.parametrize("sigma", [1e-6, 1e-9, 1e-10, 1e-200])
def test_faint_poisson_noise_leaves_the_data_as_it_is(sigma):
    x = torch.linspace(0.1, 1, 30, dtype=torch.float64).reshape(2, 15)
    noisy = dcs.noise.add(x, "poisson", sigma)
    torch.testing.assert_close(noisy, x, rtol=0, atol=6 * sigma + 1e-12)


def test_correlated_noise_of_single_numbers_has_the_deviation_asked_for_or_is_refused():
    """(n,) has no axis along which entries could be neighbours."""
    x = torch.zeros(20_000)
    try:
        noisy = dcs.noise.add(x, "correlated", 1.0)
    except ValueError as error:
        assert "x" in str(error)  # noqa: PT017  (either outcome is right)
    else:
        assert float(noisy.std()) == pytest.approx(1, abs=0.1)


def test_numpy_numbers_are_numbers():
    x = X.abs()
    plain = dcs.noise.add(x, "gaussian", 0.5, 3)
    assert torch.equal(plain, dcs.noise.add(x, "gaussian", np.float32(0.5), 3))
    assert torch.equal(plain, dcs.noise.add(x, "gaussian", 0.5, np.int64(3)))
    assert F.expected_cosine(np.float64(0.5), np.int64(3)) == F.expected_cosine(0.5, 3)
    dcs.masking.BlindSpot(rho=np.float32(0.5), radius=np.int64(1), min_masked=np.int64(1))(IMAGES)
    F.sure_loss(torch.tanh, X, np.float32(0.5), step=np.float32(1e-3))


def test_read_only_arrays_and_other_layouts_are_taken_without_a_warning():
    """A memory map opened for reading is such an array."""
    images = IMAGES.numpy().copy()
    images.flags.writeable = False
    flipped = IMAGES.numpy()[:, ::-1]
    assert np.array_equal(dcs.noise.add(images, "gaussian", 0.0), images)
    assert np.array_equal(dcs.noise.add(flipped, "gaussian", 0.0), flipped)
    assert dcs.noise.estimate_sigma(images) == dcs.noise.estimate_sigma(IMAGES)


# --- anything at all


def tensors():
    """Tensors of any dtype and many shapes, mostly of the right one, with values of any kind."""
    shapes = st.sampled_from([(3, 5)] * 6 + [(6, 12, 12)] * 3 + [(3, 5, 1), (3,), (), (0, 5), (3, 0), (1, 5)])
    dtypes = st.sampled_from(
        [torch.float32] * 4
        + [torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool]
        + [torch.complex64]
    )
    values = st.sampled_from(["normal"] * 4 + ["zero", "one", "tiny", "huge", "nan", "infinite", "mixed"])

    def build(shape, dtype, kind, seed):
        x = torch.randn(shape, generator=seeded(seed), dtype=torch.float64)
        if kind in ("nan", "infinite") and x.numel():
            x = spoilt(x, NAN if kind == "nan" else -INF)
        scale = {"zero": 0.0, "tiny": 1e-30, "huge": 1e30}.get(kind, 1.0)
        x = torch.ones(shape) if kind == "one" else scale * x if scale != 1.0 else x
        x = x * (torch.arange(x.numel()).reshape(shape) % 2) if kind == "mixed" else x
        return (
            x.to(dtype) if dtype.is_floating_point or dtype.is_complex else x.nan_to_num(0, 9, -9).to(dtype)
        )

    return st.builds(build, shapes, dtypes, values, st.integers(0, 99))


NUMBERS = st.sampled_from(
    [0, 1, 2, 3, -1, 0.5, 0.1, 1.5, -0.1, 1e-5, 1e30, NAN, INF, -INF, True, None, "a", (), (1, 1), [1.0]]
)
NAMES = st.sampled_from(
    [
        *("exact", "monte_carlo", "asymptotic", "default", "paper", "mean", "sum", "none", "chen2015", "mad"),
        *("gaussian", "poisson", "salt_and_pepper", "speckle", "correlated", "other"),
    ]
)
MASKS = st.sampled_from(
    [None, MASK, MASK.float(), MASK[:1], torch.zeros(3, 5), torch.ones(6, 12, 12).bool(), X, "a"]
)
LAWS = st.sampled_from(
    ["gaussian", dcs.noise.Gaussian(), dcs.noise.Sphere(), dcs.noise.GaussianScaleMixture([1, 3]), "b", None]
)
ARGUMENTS = {
    **dict.fromkeys(["target", "prediction", "x", "x_tilde"], tensors()),
    **dict.fromkeys(["mask", "valid"], MASKS),
    **dict.fromkeys(["method", "variant", "reduction"], NAMES),
    **dict.fromkeys(
        ["eps", "floor", "power", "eta", "samples", "step", "rho", "radius", "ndim", "alpha"], NUMBERS
    ),
    **dict.fromkeys(["min_masked", "delta", "axis", "seed", "length", "patch", "stride"], NUMBERS),
    **dict.fromkeys(["snr", "dim", "full_dim", "sigma"], st.one_of(NUMBERS, tensors())),
    **dict.fromkeys(["centre", "stratified", "shared_channels", "whole_frames", "per_image"], st.booleans()),
    "noise": LAWS,
    "kind": st.one_of(NAMES, LAWS),
    "generator": st.sampled_from([None, 0]).map(lambda g: seeded() if g is None else g),
}
MASKER_OPTIONS = {
    "BlindSpot": ["rho", "radius", "ndim", "centre", "stratified", "shared_channels", "min_masked"],
    "AmplitudeNeighbors": ["rho", "delta", "axis", "whole_frames", "min_masked"],
    "GaussianSplit": ["sigma", "alpha"],
}
FUZZED = [name for name in CALLS if set(CALLS[name][1]) & set(ARGUMENTS) and "." not in name]


@pytest.mark.parametrize("name", FUZZED)
@settings(
    max_examples=50,
    derandomize=True,
    database=None,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(data=st.data())
def test_any_combination_is_refused_or_gives_finite_results(name, data):
    parameters = [p for p in inspect.signature(CALLS[name][0]).parameters if p in ARGUMENTS]
    parameters += MASKER_OPTIONS.get(name, [])
    chosen = data.draw(st.lists(st.sampled_from(parameters), min_size=1, max_size=3, unique=True))
    changed = {argument: data.draw(ARGUMENTS[argument], label=argument) for argument in chosen}
    assert refused_or_tame(name, **changed)
