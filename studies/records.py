"""Results of studies: one JSON line for each, and the frame of their commands."""

import argparse
import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from dcs.runs.record import versions

Line = dict[str, Any]


class Records:
    """Lines of a file, to which new results are added as soon as they are there.

    Args:
        path: File, which need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def has(self, key: Line) -> bool:
        """Return whether there is a result with these values."""
        return any(key.items() <= line.items() for line in self.lines)

    def add(self, line: Line) -> None:
        """Write and print a result, with the number of threads and the versions that produced it."""
        line = {**line, "threads": torch.get_num_threads(), "versions": versions()}
        print(json.dumps(line), flush=True)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        self.lines.append(line)


class Stopwatch:
    """Wall and CPU time since it was made, that of finished child processes included."""

    def __init__(self) -> None:
        self.wall, self.cpu = time.perf_counter(), sum(os.times()[:4])

    def times(self) -> Line:
        """Return both in whole seconds."""
        wall, cpu = time.perf_counter() - self.wall, sum(os.times()[:4]) - self.cpu
        return {"seconds": round(wall), "cpu_seconds": round(cpu)}


def markdown(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Return the lines of a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return ["| " + " | ".join(map(str, line)) + " |" for line in lines]


def grouped(lines: Iterable[Line], *keys: str) -> dict[tuple[Any, ...], list[Line]]:
    """Return lines by their values of some keys."""
    groups: dict[tuple[Any, ...], list[Line]] = {}
    for line in lines:
        groups.setdefault(tuple(line[key] for key in keys), []).append(line)
    return groups


def command(
    description: str,
    add_options: Callable[[argparse.ArgumentParser], None],
    run: Callable[[argparse.Namespace], None],
    table: Callable[[list[Line]], str],
) -> None:
    """Run a study, or print the tables of its results.

    Args:
        description: What the study does.
        add_options: Function that adds the options of `run` to its parser.
        run: Function that runs what is missing.
        table: Function that makes tables, in Markdown, of all lines of a file.
    """
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    runner = commands.add_parser("run")
    add_options(runner)
    runner.set_defaults(call=run)
    printer = commands.add_parser("table")
    printer.add_argument("path", type=Path)
    printer.set_defaults(call=lambda given: print(table(Records(given.path).lines)))
    given = parser.parse_args()
    given.call(given)
