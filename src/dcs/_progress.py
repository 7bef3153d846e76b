"""Progress of long tasks: a bar on a terminal, plain lines elsewhere; always on stderr."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

_SECONDS_BETWEEN_LINES = 10.0
_SECONDS_BETWEEN_LOOKS = 2.0


class Progress:
    """Progress of one task; use it as a context.

    Args:
        what: Name of the task.
        total: Amount of work; None if unknown.
        lines: Whether to print a plain line now and then where there is no terminal.
        look: Function that returns the amount done, called every few seconds on a terminal.
        memory: Seconds over which the speed is averaged to estimate the time left.
    """

    def __init__(
        self,
        what: str,
        total: float | None = None,
        *,
        lines: bool = True,
        look: Callable[[], float] | None = None,
        memory: float = 30.0,
    ) -> None:
        from rich.console import Console  # here and below, as rich takes a while to import
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        self.what, self.total, self.lines, self.look = what, total, lines, look
        self.done, self.last_line = 0.0, time.monotonic()
        self.console = Console(stderr=True, highlight=False, markup=False)
        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        self.bar = Bar(
            *columns,
            console=self.console,
            transient=True,
            redirect_stdout=False,
            speed_estimate_period=memory,
            disable=not self.console.is_terminal,
        )
        self.task = self.bar.add_task(what, total=total)
        self.ended = threading.Event()

    def __enter__(self) -> Self:
        self.bar.start()
        if self.look is not None and not self.bar.disable:
            threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.bar.stop()

    def advance(self, amount: float = 1.0) -> None:
        """Add to the amount done."""
        self.set(self.done + amount)

    def set(self, done: float, text: str | None = None) -> None:
        """Set the amount done, and what is shown beside it."""
        self.done, self.what = done, text or self.what
        self.bar.update(self.task, completed=done, description=self.what)
        finished = text is not None and self.total is not None and done >= self.total
        if not self.lines or not self.bar.disable:
            return
        if finished or time.monotonic() - self.last_line > _SECONDS_BETWEEN_LINES:
            self.last_line = time.monotonic()
            share = f": {100 * done / self.total:.0f} %" if self.total and text is None else ""
            self.print(f"{self.what}{share}")

    def print(self, line: str) -> None:
        """Print a line, above the bar if there is one."""
        self.console.print(line, soft_wrap=True)

    def _watch(self) -> None:
        while self.look is not None and not self.ended.wait(_SECONDS_BETWEEN_LOOKS):
            self.set(self.look())


@contextmanager
def progress(what: str, total: float | None) -> Iterator[Callable[[float], Any]]:
    """Show the progress of a task, and yield a function that adds to the amount done."""
    with Progress(what, total) as shown:
        yield shown.advance
