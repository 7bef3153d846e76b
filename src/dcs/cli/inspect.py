"""`dcs inspect`: how noisy is data, and would dCS help?"""

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dcs.cli.options import AsJson, Data, Domain, Overwrite, Reading, load, reads_data
from dcs.cli.output import check_output, write

if TYPE_CHECKING:
    from dcs.data import Dataset
    from dcs.inspection import Estimate, Inspection

_RECORDINGS = 256  # are enough, and spectrograms of all would take long


@reads_data
def inspect(
    data: Data,
    reading: Reading,
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
    seed: Annotated[int, typer.Option(min=0, help="Seed of the masks for c and k.")] = 0,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Say how noisy data is, whether what dCS assumes of the noise holds, and what to run next."""
    from dcs.inspection import inspect as look

    if out is not None:
        check_output(out, [".html"], overwrite, data)
    source = reading.source(data)
    loaded = load(source, resident=None if source.noise else False)
    if domain is not None and loaded.rate is None:
        raise ValueError("--domain is only applicable to recordings: leave it out")
    chosen = None if loaded.rate is None else (domain or Domain.spectrogram)
    seen = _spectrograms(loaded, samples) if chosen is Domain.spectrogram else loaded
    found = look(seen, samples=samples, domain=None if chosen is None else str(chosen), seed=seed)
    found = _of_all(found, loaded, None if source.noise is None else str(source.noise))
    options = source.as_options()
    named = f"./{data}" if data.startswith("-") else data  # else it would be taken for an option
    first = ""
    if found.offset is not None and not options and chosen is None and found.advice.ready:
        first, named = _centre(named)
    command = shlex.join(["dcs", "fit", named, "--out", _free("run"), *options, *found.advice.arguments])
    if not found.advice.ready:
        command = ""
    page = _write_page(found, data, "\n".join(filter(None, (first, command))), out, open_page)
    if as_json:
        about = {"data": data, **found.as_dict(), "prepare": first or None, "command": command or None}
        typer.echo(json.dumps({**about, "page": page}))
        return
    typer.echo("\n".join(_lines(found, data)))
    if page is not None:
        typer.echo(f"page: {page}")
    if first:
        typer.echo(f"first: {first}")
    if command:
        typer.echo(f"next: {command}")


def _free(name: str, suffix: str = "") -> str:
    """A name that is not taken yet."""
    names = [name + suffix, *(f"{name}-{number}{suffix}" for number in range(2, 1000))]
    return next((one for one in names if not Path(one).exists()), names[0])


def _centre(data: str) -> tuple[str, str]:
    """A command that subtracts the mean, and the file that it writes."""
    out = _free("centred", ".npy")
    code = (
        f"import dcs, numpy as np; x = np.asarray(dcs.data.load({data!r}).train.x, 'f8'); "
        f"np.save({out!r}, np.float32(x - x.mean()))"
    )
    return shlex.join(["python", "-c", code]), out


def _spectrograms(loaded: "Dataset", samples: int) -> "Dataset":
    """The spectrograms of some recordings, as training would see them."""
    from dcs.data import Dataset as Made
    from dcs.data import LogMel, Split, check_shortest
    from dcs.inspection._reading import heard, pick

    assert loaded.rate is not None  # noqa: S101  (recordings have one)
    front_end, split = LogMel(loaded.rate), loaded.train
    check_shortest(loaded, front_end.frame or 0)
    x, rows = heard(split, pick(len(split), min(samples, _RECORDINGS)))
    some = Split(x, lengths=None if split.lengths is None else split.lengths[rows])
    return front_end.apply(Made(loaded.name, some, rate=loaded.rate))[0]


def _of_all(found: "Inspection", loaded: "Dataset", noise: str | None) -> "Inspection":
    """Say which samples they were of, and what was done to them before."""
    from dataclasses import replace

    notes = [] if noise is None else [f"Noise was added first, as asked for: {noise}."]
    if loaded.test is not None:
        notes += ["These are the samples to learn from; those of the test split are not looked at."]
    return replace(found, samples=len(loaded.train), notes=(*notes, *found.notes))


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
    from dcs.report.inspect_page import number, size, strength

    sigma = found.sigma
    looked = f"; {found.inspected} were looked at" if found.inspected < found.samples else ""
    lines = [
        f"{data}: {found.samples} sample{'s' * (found.samples != 1)} of {size(found)}{looked}",
        *found.notes,
        "",
        found.summary,
        "",
    ]
    if sigma.value is not None:
        lines += [
            f"Strength of the noise (sigma, its standard deviation): {strength(sigma)}",
            f"  {_short(sigma.calm):>14}  calm places: what is not foretold where surroundings hardly differ",
            f"  {_short(sigma.chen2015):>14}  chen2015: the smallest variances of small patches",
            f"  {_short(sigma.mad):>14}  mad: the median size of the finest detail",
            f"  {sigma.why}",
            "",
        ]
    lines.append("What dCS assumes of the noise:")
    for check in found.checks:
        lines += [f"  {check.verdict:13}  {check.title}. {check.because}"]
    if found.c is not None and found.k is not None and found.c.quantiles:
        lines += ["", "Of a sample, as training sees it: the median, and where nine in ten lie"]
        named = {
            "signal-to-noise ratio c": (found.c, "how many times stronger than the noise"),
            "expected cosine k": (found.k, "1 without noise, 0 for noise alone"),
        }
        for name, (spread, meaning) in named.items():
            q = spread.quantiles
            between = f"({number(q['5'])} to {number(q['95'])})"
            lines.append(f"  {name:23}  {number(q['50'])}  {between}: {meaning}")
        lines.append(
            "  Unlike above, the mean of all values counts as signal here; and "
            + (
                "a split adds noise, which makes both smaller."
                if found.advice.views == "split"
                else "with masks all that differs between neighbours counts as noise, detail too: for data "
                "with little noise both are too small."
            )
        )
    train = f"train with {found.advice.objective}. " if found.advice.ready else ""
    lines += ["", f"Advice: {train}{found.advice.why}"]
    lines += [f"  note: {warning}" for warning in found.advice.warnings]
    lines += [f"  note: {check.meaning}" for check in found.checks if check.verdict == "does not hold"]
    return lines


def _short(estimate: "Estimate | None") -> str:
    from dcs.report.inspect_page import number

    return "cannot be used" if estimate is None else number(estimate.value)
