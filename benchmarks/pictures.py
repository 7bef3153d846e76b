"""What windows and tiles of pictures cost beside the network itself, and the memory of a large picture."""

from collections.abc import Callable, Iterable

import numpy as np
import torch

from dcs import models
from dcs.data import ListItems, RandomWindows
from dcs.noise import GaussianSplit
from dcs.objectives import DenoisingCosine
from dcs.runs.tiling import Tiling, predict_item
from timing import Ratio, at_most, faster, side_by_side, timed

WINDOW, BATCH, SIDE = (64, 64), 16, 2048


def step(network: torch.nn.Module) -> Callable[[], None]:
    """One step of Adam on a batch that is there already, in bfloat16."""
    objective = DenoisingCosine(GaussianSplit(0.3, alpha=0.5), centre=True, length=1.0)
    optimizer = torch.optim.AdamW(network.parameters(), fused=True)
    x, generator = torch.randn(BATCH, *WINDOW), torch.Generator().manual_seed(0)

    def one() -> None:
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = objective(network, x, generator)
        loss.backward()
        optimizer.step()

    return one


def pictures() -> Iterable[Ratio]:
    """Reading of windows against a step, and tiles against one pass over the same picture."""
    network = models.build("resunet", WINDOW, seed=0)
    items = ListItems([torch.rand(480 + n, 320) for n in range(32)], 2)
    windows = RandomWindows(items, WINDOW)
    rows = list(range(BATCH))
    one = step(network)
    times = side_by_side(
        lambda count: timed(lambda: windows.read(rows), count), lambda count: timed(one, count), 6, 4
    )
    yield at_most("16 windows of 64 x 64 against a step of the U-Net", times, 0.05)

    picture = torch.rand(SIDE, SIDE)
    margin = -(-network.context // network.stride) * network.stride  # type: ignore[operator]
    tiling, out = Tiling((1536, 1536), margin, network.stride), np.zeros((SIDE, SIDE), np.float32)  # type: ignore[arg-type]

    def tiles() -> None:
        out[:] = 0
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            predict_item(lambda seen, _: network(seen).float(), ListItems([picture], 2), 0, tiling, out)

    def once() -> None:
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            network(picture[None])

    times = side_by_side(lambda count: timed(tiles, count), lambda count: timed(once, count), 1, 4)
    yield faster(f"tiles against one pass over {SIDE} x {SIDE} pixels", times, 0.9)
