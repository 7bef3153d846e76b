"""Time one library's masking on request: a shape and a count in, one line; seconds out, one line.

`python benchmarks/mask_worker.py dcs` and `… careamics` run in processes of their own, the latter in another
environment too. Importing CAREamics would import Lightning and torchvision, which the one module in
question does not need: its parent packages are entered without running them.
"""

import importlib.util
import json
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor


def dcs_masking() -> Callable[[Tensor], object]:
    """BlindSpot with 10 % of the entries and a window of 3."""
    from dcs.masking import BlindSpot

    masker, generator = BlindSpot(rho=0.1), torch.Generator().manual_seed(0)
    return lambda x: masker(x, generator)


def careamics_masking() -> Callable[[Tensor], object]:
    """CAREamics' uniform_manipulate with the same; like its own caller, channel by channel."""
    spec = importlib.util.find_spec("careamics")
    assert spec is not None  # noqa: S101
    assert spec.submodule_search_locations is not None  # noqa: S101
    root = Path(spec.submodule_search_locations[0])
    module = "careamics.lightning.modules.n2v_utils.pixel_manipulation"
    for name in (module.rpartition(".")[0], "careamics.config.algorithms"):
        parts = name.split(".")
        for end in range(1, len(parts) + 1):
            package = types.ModuleType(".".join(parts[:end]))
            package.__path__ = [str(root.joinpath(*parts[1:end]))]
            sys.modules.setdefault(package.__name__, package)
    manipulate = importlib.import_module(module).uniform_manipulate
    generator = torch.Generator().manual_seed(0)
    return lambda x: manipulate(x[:, 0], 10.0, subpatch_size=3, rng=generator)


def main() -> None:
    """Answer requests until the input ends."""
    mask = {"dcs": dcs_masking, "careamics": careamics_masking}[sys.argv[1]]()
    for line in sys.stdin:
        request = json.loads(line)
        x = torch.randn(request["shape"])
        seconds = []
        for _ in range(request["count"]):
            start = time.perf_counter()
            mask(x)
            seconds.append(time.perf_counter() - start)
        print(json.dumps(seconds), flush=True)


if __name__ == "__main__":
    main()
