"""Readings of the paper: switches for what its text leaves open, and the text that each hangs on."""

from collections.abc import Iterable
from typing import NamedTuple

from dcs._checks import check_choice


class Switch(NamedTuple):
    """A choice that the paper leaves open.

    Args:
        summary: What it changes.
        text: Text of the paper that allows it.
        methods: Methods that it changes, in the variant `paper`; None for all methods in both variants.
    """

    summary: str
    text: str
    methods: tuple[str, ...] | None = None


_MASKED = ("n2v", "dcs", "oracle")
SWITCHES = {
    "clip": Switch(
        "noisy values are clipped to [0, 1]",
        "Section 4.1: pixels are normalized within [0, 1], and the noisy image is defined as x + ε; whether "
        "it is clipped, as in an image file, is not said",
    ),
    "fresh": Switch(
        "the noise is drawn anew in each epoch, not once",
        "Section 4.1 defines the noisy image as x + ε, and does not say when ε is drawn",
    ),
    "sgd": Switch(
        "the linear head is trained by SGD, without standardised features",
        "Section 4: attach a trainable linear head, and train it; its optimiser is not given",
    ),
    "centre": Switch(
        "a masked pixel may keep its value",
        "Definition 1: a random pixel of the mini-patch whose centre is the pixel; only Definition 3, for "
        "speech, excludes the centre",
        _MASKED,
    ),
    "whole": Switch(
        "ĉ is estimated from all entries, not from the masked ones",
        "Section 3.3 writes ĉ without b; Eq. 9 and Remark 3 write k and ĉ with it",
        ("dcs",),
    ),
    "soft": Switch(
        "the weight is √(ĉ² + 1)/(ĉ + η) with η = 0.01",
        "Remark 3, where η is a small positive constant; Algorithm 1 uses Monte Carlo sampling instead",
        ("dcs",),
    ),
}
SOFT_ETA = 0.01
OF_COLUMNS = ("clip", "fresh", "sgd")  # which all methods of a column of a table share


def parse_reading(text: str) -> tuple[str, ...]:
    """Return the switches in text such as clip+centre, in the order of `SWITCHES`; `plain` has none.

    Example:
        >>> parse_reading("centre+clip"), parse_reading("plain")
        (('clip', 'centre'), ())
    """
    wanted = [word.strip() for word in text.split("+") if word.strip() not in ("", "plain")]
    for word in wanted:
        check_choice("reading", word, SWITCHES)
    return tuple(name for name in SWITCHES if name in wanted)


def applied(switches: Iterable[str], method: str, variant: str) -> str:
    """Return the switches that change a method, as text."""
    found = []
    for name in switches:
        methods = SWITCHES[name].methods
        if methods is None or (variant == "paper" and method in methods):
            found.append(name)
    return "+".join(found)
