"""How far a long task is: a bar on a terminal, a plain line now and then elsewhere; always on stderr."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_SECONDS_BETWEEN_LINES = 10.0


@contextmanager
def progress(what: str, total: float | None) -> Iterator[Callable[[float], None]]:
    """Yield a function that is told how much further the task got.

    Args:
        what: The task, as it is shown.
        total: How much there is to do; None if unknown.
    """
    from rich.console import Console  # here and below, as rich takes a while to import
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if console.is_terminal:
        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task(what, total=total)
            yield lambda amount: bar.advance(task, amount)
        return
    done, last = 0.0, time.monotonic()

    def advance(amount: float) -> None:
        nonlocal done, last
        done += amount
        if time.monotonic() - last > _SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            console.print(f"{what}: {100 * done / total:.0f} %" if total else what, highlight=False)

    yield advance
