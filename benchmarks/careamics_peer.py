"""Time CAREamics' uniform_manipulate on request: one line in, a shape and a count; one line out, seconds.

Runs in an environment of its own. Importing the package would import Lightning and torchvision, which the
one module in question does not need: its parent packages are entered without running them.
"""

import importlib.util
import json
import sys
import time
import types
from pathlib import Path

import torch

spec = importlib.util.find_spec("careamics")
assert spec is not None  # noqa: S101
assert spec.submodule_search_locations is not None  # noqa: S101
root = Path(spec.submodule_search_locations[0])
MODULE = "careamics.lightning.modules.n2v_utils.pixel_manipulation"
for name in (MODULE.rpartition(".")[0], "careamics.config.algorithms"):
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        package = types.ModuleType(".".join(parts[:end]))
        package.__path__ = [str(root.joinpath(*parts[1:end]))]
        sys.modules.setdefault(package.__name__, package)
uniform_manipulate = importlib.import_module(MODULE).uniform_manipulate

generator = torch.Generator().manual_seed(0)
for line in sys.stdin:
    request = json.loads(line)
    x = torch.randn(request["shape"])
    channel = x[:, 0]  # its own caller goes channel by channel too
    seconds = []
    for _ in range(request["count"]):
        start = time.perf_counter()
        uniform_manipulate(channel, 10.0, subpatch_size=3, rng=generator)
        seconds.append(time.perf_counter() - start)
    print(json.dumps(seconds), flush=True)
