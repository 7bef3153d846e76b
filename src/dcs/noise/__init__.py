"""Noise: isotropic laws, generation of noisy data, and estimation of the noise level."""

from dcs.noise.corruption import add
from dcs.noise.isotropic import Gaussian, GaussianScaleMixture, IsotropicNoise, Radial, Sphere
from dcs.noise.level import estimate_sigma, quiet_share, sigma_by_brightness
from dcs.noise.split import GaussianSplit

__all__ = [
    "Gaussian",
    "GaussianScaleMixture",
    "GaussianSplit",
    "IsotropicNoise",
    "Radial",
    "Sphere",
    "add",
    "estimate_sigma",
    "quiet_share",
    "sigma_by_brightness",
]
