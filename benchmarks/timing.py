"""How two things are timed side by side, and how a ratio is judged."""

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

_REST = 0.3  # seconds


class Ratio(NamedTuple):
    """One line of the table."""

    what: str
    ours: float  # seconds
    reference: float
    ratio: float
    target: str = ""
    holds: bool | None = None


def timed(function: Callable[[], object], count: int) -> list[float]:
    """Seconds of `count` calls."""
    seconds = []
    for _ in range(count):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return seconds


def side_by_side(
    ours: Callable[[int], list[float]], reference: Callable[[int], list[float]], count: int, rounds: int
) -> tuple[float, float]:
    """Medians of both, in alternating rounds after one that does not count, each after a rest.

    Threads of the other side, such as those of NumPy's BLAS, go on spinning for a while, on a core that is
    then missing.
    """

    def rested(side: Callable[[int], list[float]]) -> list[float]:
        time.sleep(_REST)
        return side(count)

    ours(count)
    reference(count)
    pairs = [(rested(ours), rested(reference)) for _ in range(rounds)]
    return statistics.median(s for a, _ in pairs for s in a), statistics.median(
        s for _, b in pairs for s in b
    )


def at_most(what: str, times: tuple[float, float], limit: float) -> Ratio:
    """Cost relative to the reference."""
    ratio = times[0] / times[1]
    return Ratio(what, *times, ratio, f"<= {limit:g}", ratio <= limit)


def faster(what: str, times: tuple[float, float], least: float) -> Ratio:
    """Speed relative to the reference."""
    ratio = times[1] / times[0]
    return Ratio(what, *times, ratio, f">= {least:g}", ratio >= least)
