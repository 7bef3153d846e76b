"""The `dcs` command."""

import importlib.metadata
import sys
import warnings
from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

import dcs
from dcs._naming import naming_options
from dcs.cli import datasets, demo, denoise, embed, evaluate, fit, inspect, report, reproduce

app = typer.Typer(
    name="dcs",
    help="Learn representations from noisy, unlabelled data with the denoising Cosine-Similarity (dCS) loss.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


class PartsCommand(TyperCommand):
    """A command whose help lists the registered parts: {objectives}, {networks}, {views}, {protocols}."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help, with the names of all parts that are registered now."""
        listing: list[Any] = [one for one in self.params if "{" in (getattr(one, "help", None) or "")]
        if listing:
            from dcs import evaluation, masking, models, objectives

            parts: dict[str, Iterable[str]] = {"objectives": objectives.names(), "networks": models.NETWORKS}
            parts |= {"views": masking.VIEWS, "protocols": evaluation.PROTOCOLS}
            for parameter in listing:
                parameter.help = parameter.help.format(**{kind: ", ".join(parts[kind]) for kind in parts})
        super().format_help(ctx, formatter)


_EXAMPLES: dict[Callable[..., None], str] = {
    demo.demo: "dcs demo --sigma 0.5 --epochs 200",
    inspect.inspect: "dcs inspect photos/ --out noise.html",
    fit.fit: "dcs fit photos/ --out run",
    embed.embed: "dcs embed run photos/ --out features.npy",
    denoise.denoise: "dcs denoise run photos/ --out cleaner. Recordings need a run with --domain waveform: "
    "dcs fit recordings/ --domain waveform --mixed windows --size 16384 --out run; then "
    "dcs denoise run in.wav --out out.wav",
    evaluate.evaluate: "dcs evaluate run --protocol linear,clustering",
    reproduce.reproduce: "dcs reproduce expt0 --preset quick --noise 0.5 --out expt0",
    report.report: "dcs report run other-run --out report.html --open",
}
for _command, _example in _EXAMPLES.items():
    app.command(cls=PartsCommand, epilog=f"Example: {_example}")(_command)
app.add_typer(datasets.app, name="datasets")


def main() -> None:
    """Run the command; an error that a user can fix is one line on stderr and exit code 1."""
    keep_freed_memory()
    for point in importlib.metadata.entry_points(group="dcs.parts"):
        point.load()
    warnings.formatwarning = lambda message, *_, **__: f"dcs: warning: {message}\n"
    try:
        with naming_options():
            app()
    except OSError as error:
        named = error.filename and error.strerror and "\n" not in str(error.filename)
        sys.exit(f"dcs: {error.filename}: {error.strerror}" if named else f"dcs: {error}")
    except (ValueError, TypeError, ImportError) as error:
        sys.exit(f"dcs: {error}")


def keep_freed_memory() -> None:
    """Let glibc's malloc keep up to 64 MB of freed memory, for the rest of the process.

    By default it returns blocks above 128 kB to the system, so that each step of a training pays for
    thousands of page faults. Freeing one block just below 32 MB raises that limit. It is done here, and not
    in the library, because it changes the whole process, which is the command's own.
    """
    bytes(2**25 - 2**16)  # zeros that are never touched, so that no memory is used


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
