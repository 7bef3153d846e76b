"""Throughput of a training step of `resunet` against CAREamics' U-Net, side by side in one process.

    make .venv-careamics/.installed
    PYTHONPATH=src:studies .venv-careamics/bin/python benchmarks/careamics_unet.py

`make bench` runs it, too. A step is the forward pass, the squared error at masked pixels, the backward pass
and torch's Adam, on the same 16 windows of 64 x 64 for each network. The reference is CAREamics' default
U-Net in float32, its default precision. `resunet` has the same width and depth, and 3 % more parameters; the
`resunet` that `dcs fit` trains by default, deeper and with 2.4 times as many parameters, is measured as well.
Both are measured in the precision that `dcs fit` uses on this machine, and in float32.

Prints one line of JSON: `ratio` is how many times as many pixels per second `resunet` trains on, the median
over rounds in which each network takes its turn. Fails if that is less than 1.3.
"""

import argparse
import json
import math
import statistics
import sys
from collections.abc import Callable
from importlib.metadata import version

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from careamics_n2v import allow_missing_torchvision
from dcs import models
from dcs.cli import keep_freed_memory
from dcs.training.config import fast_precision
from timing import timed

BATCH, WINDOW = 16, (1, 64, 64)
MASKED, GOAL = 0.002, 1.3  # share of the pixels, as CAREamics masks by default; least ratio
COMPONENTS = 112  # of a resunet of depth 2, for about as many parameters as CAREamics' U-Net
Side = tuple[str, str]  # name of a network, and its precision


def careamics_unet() -> nn.Module:
    """Make the U-Net that CAREamics trains by default."""
    allow_missing_torchvision()
    from careamics.config import UNetConfig
    from careamics.models.unet import UNet

    torch.manual_seed(0)
    network: nn.Module = UNet(**UNetConfig(architecture="UNet").model_dump())
    return network


def training_step(network: nn.Module, x: Tensor, mask: Tensor, precision: str) -> Callable[[], None]:
    """Return a function that takes one step of Adam, in `bf16` or `float32`."""
    optimizer = torch.optim.Adam(network.parameters())

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            prediction = network(x)
        loss = (mask * (prediction.float() - x).square()).sum() / mask.sum()
        loss.backward()
        optimizer.step()

    return step


def describe(network: nn.Module) -> dict[str, int]:
    """Count the parameters, and the operations of a forward pass."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network(torch.zeros(1, *WINDOW))
    flops = counter.get_total_flops() // math.prod(WINDOW)
    return {"parameters": sum(one.numel() for one in network.parameters()), "flops_per_pixel": flops}


def measure(
    networks: dict[str, nn.Module], sides: list[Side], rounds: int, count: int
) -> list[dict[Side, float]]:
    """Return the seconds per step of each network and precision, in rounds in which each takes its turn."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(BATCH, *WINDOW, generator=generator)
    mask = (torch.rand(x.shape, generator=generator) < MASKED).float()
    steps = {(name, kind): training_step(networks[name], x, mask, kind) for name, kind in sides}
    for step in steps.values():  # torch sets things up
        step()
    return [
        {side: statistics.median(timed(step, count)) for side, step in steps.items()} for _ in range(rounds)
    ]


def main() -> None:
    """Measure, and print the line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--steps", type=int, default=4, help="of each network in each round")
    given = parser.parse_args()
    keep_freed_memory()  # as the command `dcs` does; all networks gain by it here
    fast = "bf16" if fast_precision(2) == "bf16" else "float32"
    networks = {
        "careamics": careamics_unet(),
        "resunet": models.build("resunet", WINDOW, COMPONENTS, seed=0, depth=2),
        "resunet_default": models.build("resunet", WINDOW, seed=0),
    }
    about = {name: describe(network) for name, network in networks.items()}
    reference = ("careamics", "float32")
    sides = [reference, *((name, kind) for name in list(networks)[1:] for kind in ("float32", fast))]
    rounds = measure(networks, sides, given.rounds, given.steps)
    for name, kind in sides:
        seconds = statistics.median(one[name, kind] for one in rounds)
        about[name][f"pixels_per_second_{kind}"] = round(BATCH * math.prod(WINDOW) / seconds)

    def ratio(name: str, kind: str) -> float:
        return round(statistics.median(one[reference] / one[name, kind] for one in rounds), 3)

    line = {
        "ratio": ratio("resunet", fast),
        "goal": GOAL,
        "precision": fast,
        "ratio_float32": ratio("resunet", "float32"),
        "ratio_default": ratio("resunet_default", fast),
        "ratio_default_float32": ratio("resunet_default", "float32"),
        **about,
        "threads": torch.get_num_threads(),
        "versions": {name: version(name) for name in ("torch", "careamics")},
    }
    print(json.dumps(line))
    sys.exit(ratio("resunet", fast) < GOAL)


if __name__ == "__main__":
    main()
