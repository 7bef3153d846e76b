"""`dcs inspect`: how noisy is data, and would dCS help?"""

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dcs.cli._data import (
    AsJson,
    Data,
    DataSeed,
    Hop,
    Label,
    Mixed,
    MixedSizes,
    Noise,
    Overwrite,
    Rate,
    Reading,
    Root,
    Size,
    SkipBad,
    load_data,
)
from dcs.cli._output import check_output, write
from dcs.cli.fit import Domain

if TYPE_CHECKING:
    from dcs.data import Dataset
    from dcs.inspection import Estimate, Inspection

_RECORDINGS = 256  # are enough, and spectrograms of all would take long


def inspect(
    data: Data,
    out: Annotated[
        Path | None, typer.Option(help="An .html file for a page with plots and explanations.")
    ] = None,
    open_page: Annotated[
        bool,
        typer.Option("--open", help="Show the page in the browser; without --out, from a temporary file."),
    ] = False,
    samples: Annotated[int, typer.Option(min=1, help="Look at so many at most, evenly spread.")] = 4096,
    domain: Annotated[
        Domain | None, typer.Option(help="What is looked at of recordings.  [default: spectrogram]")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the masks for c and k.")] = 0,
    noise: Noise = None,
    data_seed: DataSeed = 0,
    root: Root = None,
    label: Label = None,
    mixed: MixedSizes = Mixed.error,
    size: Size = None,
    rate: Rate = None,
    hop: Hop = None,
    skip_bad: SkipBad = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Say how noisy data is, whether what dCS assumes of the noise holds, and what to run next."""
    from dcs.inspection import inspect as look

    if out is not None:
        check_output(out, ".html", overwrite, data)
    reading = Reading(mixed, size, rate, hop, skip_bad)
    loaded = load_data(data, root, noise, data_seed, label, reading, resident=None if noise else False)
    if domain is not None and loaded.rate is None:
        raise ValueError("--domain is for recordings, and the data has none: leave it out")
    chosen = None if loaded.rate is None else (domain or Domain.spectrogram)
    seen = _spectrograms(loaded, samples) if chosen is Domain.spectrogram else loaded
    found = look(seen, samples=samples, domain=None if chosen is None else str(chosen), seed=seed)
    if chosen is Domain.spectrogram:
        found = _of_all(found, len(loaded.train))
    asked = {"noise": noise, "data-seed": data_seed or None, "root": root, "label": label, "size": size}
    asked |= {"mixed": None if mixed is Mixed.error else str(mixed), "rate": rate, "hop": hop}
    options = [f"--{name}={value}" for name, value in asked.items() if value is not None]
    options += ["--skip-bad"] if skip_bad else []
    command = shlex.join(["dcs", "fit", data, "--out", _free(), *options, *found.advice.arguments])
    if not found.advice.ready:
        command = ""
    page = _write_page(found, data, command, out, open_page)
    if as_json:
        about = {"data": data, **found.as_dict(), "command": command or None, "page": page}
        typer.echo(json.dumps(about))
        return
    typer.echo("\n".join(_lines(found, data)))
    if page is not None:
        typer.echo(f"page: {page}")
    if command:
        typer.echo(f"next: {command}")


def _free() -> str:
    """A name for the run that is not taken yet."""
    names = ("run", *(f"run-{number}" for number in range(2, 1000)))
    return next((name for name in names if not Path(name).exists()), "run")


def _spectrograms(loaded: "Dataset", samples: int) -> "Dataset":
    """The spectrograms of some recordings, as training would see them."""
    from dcs.data import Dataset as Made
    from dcs.data import LogMel, Split
    from dcs.inspection._reading import pick, read

    split = loaded.train
    rows = pick(len(split), min(samples, _RECORDINGS))
    some = Split(read(split.x, rows), lengths=None if split.lengths is None else split.lengths[rows])
    assert loaded.rate is not None  # noqa: S101  (recordings have one)
    return LogMel(loaded.rate).apply(Made(loaded.name, some, rate=loaded.rate))[0]


def _of_all(found: "Inspection", samples: int) -> "Inspection":
    from dataclasses import replace

    return replace(found, samples=samples)


def _write_page(
    found: "Inspection", data: str, command: str, out: Path | None, open_page: bool
) -> str | None:
    if out is None and not open_page:
        return None
    import tempfile
    import webbrowser

    from dcs import __version__
    from dcs.report.inspect_page import render

    content = render(found, data, command, f" of dcs-learn {__version__}")
    if out is None:
        out = Path(tempfile.mkdtemp(prefix="dcs-inspect-")) / "inspect.html"
    write(out, content)
    if open_page and not webbrowser.open(out.absolute().as_uri()):
        typer.echo(f"dcs: no browser was found: open {out} yourself", err=True)
    return str(out)


def _lines(found: "Inspection", data: str) -> list[str]:
    """The answer for a terminal."""
    from dcs.report.inspect_page import number, strength

    shape, sigma = " x ".join(map(str, found.shape)), found.sigma
    looked = f"; {found.inspected} were looked at" if found.inspected < found.samples else ""
    lines = [
        f"{data}: {found.samples} sample{'s' * (found.samples != 1)} of {shape}{looked}",
        *found.notes,
        "",
        found.summary,
        "",
    ]
    if sigma.value is not None:
        lines += [
            f"Strength of the noise (sigma, its standard deviation): {strength(sigma)}",
            f"  chen2015 {_short(sigma.chen2015)}   mad {_short(sigma.mad)}   calm places "
            f"{_short(sigma.calm)}",
            f"  {sigma.why}",
            "",
        ]
    lines.append("What dCS assumes of the noise:")
    for check in found.checks:
        lines += [f"  {check.verdict:13}  {check.title}. {check.because}"]
    if found.c is not None and found.k is not None and found.c.quantiles:
        split = found.advice.views == "split"
        seen = "as training compares with it (a split adds noise to it)" if split else "as masking sees it"
        lines += ["", f"Of a sample, {seen}: the median, and where nine in ten lie"]
        for name, spread in (("signal-to-noise ratio c", found.c), ("expected cosine k", found.k)):
            q = spread.quantiles
            lines.append(f"  {name:23}  {number(q['50'])}  ({number(q['5'])} to {number(q['95'])})")
    train = f"train with {found.advice.objective}. " if found.advice.ready else ""
    lines += ["", f"Advice: {train}{found.advice.why}"]
    lines += [f"  note: {warning}" for warning in found.advice.warnings]
    lines += [f"  note: {check.meaning}" for check in found.checks if check.verdict == "does not hold"]
    return lines


def _short(estimate: "Estimate | None") -> Any:
    from dcs.report.inspect_page import number

    return "cannot be used" if estimate is None else number(estimate.value)
