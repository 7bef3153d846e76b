"""Helpers that several test modules share."""

import contextlib
import io
import subprocess
import sys
from pathlib import Path
from unittest import mock

import torch

from dcs.cli import main

ROOT = Path(__file__).parents[1]
DCS = Path(sys.executable).with_name("dcs")
QUICK = ("--set", 'network_options={"hidden": [32]}', "--threads", "1", "--batch-size", "64")


def dcs(*arguments):
    """The command in a process of its own."""
    return subprocess.run([DCS, *map(str, arguments)], capture_output=True, text=True, timeout=300)


def inside(*arguments):
    """The command in this process, which is quicker."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), mock.patch("sys.argv", ["dcs"]):
        sys.argv += map(str, arguments)
        try:
            main()
        except SystemExit as leave:
            code = leave.code if isinstance(leave.code, int) else 1
            print(
                leave.code if isinstance(leave.code, str) else "",
                end="\n" * isinstance(leave.code, str),
                file=err,
            )
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


def seeded(seed=0):
    """Return a CPU generator with a seed."""
    return torch.Generator().manual_seed(seed)
