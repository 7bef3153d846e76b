"""The `dcs` command."""

import re
import shlex
import sys
import warnings
from typing import Annotated

import typer

import dcs
from dcs.cli import apply, datasets, demo, evaluate, fit, inspect, report, reproduce

app = typer.Typer(
    name="dcs",
    help="Learn representations from noisy, unlabelled data with the denoising Cosine-Similarity (dCS) loss.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


app.command("demo", epilog="Example: dcs demo --sigma 0.5 --epochs 200")(demo.demo)
app.command("inspect", epilog="Example: dcs inspect photos/ --out noise.html")(inspect.inspect)
app.command("fit", epilog="Example: dcs fit photos/ --out run")(fit.fit)
app.command("embed", epilog="Example: dcs embed run photos/ --out features.npy")(apply.embed)
app.command(
    "denoise",
    epilog="Example: dcs denoise run photos/ --out cleaner. Recordings need a run with --domain waveform: "
    "dcs fit recordings/ --domain waveform --mixed windows --size 16384 --out run; then "
    "dcs denoise run in.wav --out out.wav",
)(apply.denoise)
app.command("evaluate", epilog="Example: dcs evaluate run --protocol linear,clustering")(evaluate.evaluate)
app.command("reproduce", epilog="Example: dcs reproduce expt0 --preset quick --noise 0.5 --out expt0")(
    reproduce.reproduce
)
app.command("report", epilog="Example: dcs report run other-run --out report.html --open")(report.report)
app.add_typer(datasets.app, name="datasets")


def main() -> None:
    """Run the command; what a user can mend is one line on stderr and exit code 1."""
    warnings.formatwarning = lambda message, *_, **__: f"dcs: warning: {_as_options(str(message))}\n"
    try:
        app()
    except (ValueError, TypeError, OSError, ImportError) as error:
        sys.exit(f"dcs: {_as_options(str(error))}")


def _as_options(text: str) -> str:
    """Advice on arguments in Python, as options: mixed="crop" becomes --mixed crop."""
    text = text.replace("label=False", "--label none").replace("label=...", "--label")
    text = text.replace("skip_bad=True", "--skip-bad")
    text = re.sub(r"[\w-]+ \(--([\w-]+)\)", r"--\1", text)  # such as: part (--part)
    text = re.sub(
        r"^(\w+) is not applicable to",
        lambda found: f"--{found[1].replace('_', '-')} is not applicable to",
        text,
    )
    return re.sub(
        r"""\b(mixed|label)=(["'])(.*?)\2""", lambda found: f"--{found[1]} {shlex.quote(found[3])}", text
    )


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dcs-learn {dcs.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass
