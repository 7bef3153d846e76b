"""`dcs inspect`: how noisy is data, and would dCS help?"""

import json
import shlex
import tempfile
import webbrowser
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dcs.cli.options import AsJson, Data, Domain, Overwrite, Reading, load, reads_data
from dcs.cli.output import check_output, write

if TYPE_CHECKING:
    from dcs.inspection import Estimate, Inspection


@reads_data
def inspect(
    data: Data,
    reading: Reading,
    out: Annotated[
        Path | None, typer.Option(help="File for a page with plots and explanations, ending in .html.")
    ] = None,
    open_page: Annotated[
        bool,
        typer.Option("--open", help="Open the page in the browser; without --out, from a temporary file."),
    ] = False,
    samples: Annotated[int, typer.Option(min=1, help="Largest number of samples to inspect.")] = 4096,
    domain: Annotated[
        Domain | None, typer.Option(help="Representation of recordings to inspect.  [default: spectrogram]")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the masks for c and k.")] = 0,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Measure how noisy data is, check what dCS assumes of the noise, and recommend what to run next."""
    from dcs import inspection

    if out is not None:
        check_output(out, [".html"], overwrite, data)
    source = reading.source(data)
    loaded = load(source, resident=None if source.noise else False)
    if domain is not None and loaded.rate is None:
        raise ValueError("--domain is only applicable to recordings: leave it out")
    chosen = None if loaded.rate is None else str(domain or Domain.spectrogram)
    found = inspection.inspect(loaded, samples=samples, domain=chosen, seed=seed)
    notes = [] if source.noise is None else [f"Noise was added first: {source.noise}."]
    notes += [] if loaded.test is None else ["Only the training split is inspected."]
    found = replace(found, notes=(*notes, *found.notes))
    options = source.as_options()
    named = f"./{data}" if data.startswith("-") else data  # otherwise it would be parsed as an option
    first = command = ""
    if found.offset is not None and not options and chosen is None and found.advice.ready:
        first, named = _centring_command(named)
    if found.advice.ready:
        words = ["dcs", "fit", named, "--out", _unused_name("run"), *options, *found.advice.arguments]
        command = shlex.join(words)
    page = _write_page(found, data, "\n".join(filter(None, (first, command))), out, open_page)
    if as_json:
        about = {"data": data, **found.as_dict(), "prepare": first or None, "command": command or None}
        typer.echo(json.dumps({**about, "page": page}))
        return
    typer.echo("\n".join(_lines(found, data)))
    for title, text in (("page", page), ("first", first), ("next", command)):
        if text:
            typer.echo(f"{title}: {text}")


def _unused_name(name: str, suffix: str = "") -> str:
    """Return the name of a file that does not exist."""
    names = [name + suffix, *(f"{name}-{number}{suffix}" for number in range(2, 1000))]
    return next((one for one in names if not Path(one).exists()), names[0])


def _centring_command(data: str) -> tuple[str, str]:
    """Return a command that subtracts the mean, and the file that it writes."""
    out = _unused_name("centred", ".npy")
    code = (
        f"import dcs, numpy as np; x = np.asarray(dcs.data.load({data!r}).train.x, 'f8'); "
        f"np.save({out!r}, np.float32(x - x.mean()))"
    )
    return shlex.join(["python", "-c", code]), out


def _write_page(
    found: "Inspection", data: str, command: str, out: Path | None, open_page: bool
) -> str | None:
    if out is None and not open_page:
        return None
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
    """Return the answer as lines for a terminal."""
    from dcs.inspection import number, size, strength

    def short(estimate: "Estimate | None") -> str:
        return "not applicable" if estimate is None else number(estimate.value)

    sigma = found.sigma
    some = f"; {found.inspected} were inspected" if found.inspected < found.samples else ""
    lines = [
        f"{data}: {found.samples} sample{'s' * (found.samples != 1)} of {size(found)}{some}",
        *found.notes,
        "",
        found.summary,
        "",
    ]
    if sigma.value is not None:
        lines += [
            f"Noise level (sigma, the standard deviation of the noise): {strength(sigma)}",
            f"  {short(sigma.calm):>14}  flat regions: residual noise where neighbours hardly differ",
            f"  {short(sigma.chen2015):>14}  chen2015: smallest variances of small patches",
            f"  {short(sigma.mad):>14}  mad: median size of the finest detail",
            f"  {sigma.why}",
            "",
        ]
    lines.append("What dCS assumes of the noise:")
    for check in found.checks:
        lines += [f"  {check.verdict:13}  {check.title}. {check.because}"]
    if found.c is not None and found.k is not None and found.c.quantiles:
        lines += ["", "Per sample, as estimated in training: median (5th to 95th percentile)"]
        named = {
            "signal-to-noise ratio c": (found.c, "strength of the signal divided by that of the noise"),
            "expected cosine k": (found.k, "1 without noise, 0 for noise alone"),
        }
        for name, (spread, meaning) in named.items():
            q = spread.quantiles
            between = f"({number(q['5'])} to {number(q['95'])})"
            lines.append(f"  {name:23}  {number(q['50'])}  {between}: {meaning}")
        lines.append(
            "  Unlike above, the mean of all values counts as signal here. "
            + (
                "A split adds noise, so both are smaller than for the data itself."
                if found.advice.views == "split"
                else "Masking counts all differences between neighbours as noise, including detail: for data "
                "with little noise, both are too small."
            )
        )
    train = f"train with {found.advice.objective}. " if found.advice.ready else ""
    lines += ["", f"Advice: {train}{found.advice.why}"]
    lines += [f"  note: {warning}" for warning in found.advice.warnings]
    lines += [f"  note: {check.meaning}" for check in found.checks if check.verdict == "does not hold"]
    return lines
