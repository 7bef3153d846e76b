"""The registry of networks."""

from torch import nn

from dcs._registry import Registry

NETWORKS: Registry[nn.Module] = Registry("network", given=("shape", "n_components"))
"""Networks by name, made as factory(shape, n_components, **options).

Traits: `waveforms`, whether the network takes recordings as waveforms (n, t); `own_weights`, whether its
initial weights are its own rather than Glorot-uniform ones; `fixed_features`, whether the number of features
follows from other options.
"""
