"""`tcdsl profile`: what a script spends its time on, kernel by kernel."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import click

from tcdsl.cli.app import check_writable, main, say
from tcdsl.profiler.render import SORTED_BY


@main.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--as-torch", is_flag=True, help="`import torch` of the script means this library.")
@click.option("--rows", type=click.IntRange(1), default=25, show_default=True)
@click.option("--shapes", is_flag=True, help="A row for each shape of operands.")
@click.option(
    "--sort",
    type=click.Choice(SORTED_BY),
    default="self_cpu_time_total",
    show_default=True,
)
@click.option(
    "--trace",
    type=click.Path(path_type=Path),
    help="Write a file for chrome://tracing or Perfetto; .gz is packed.",
)
@click.argument("script", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def profile(
    as_torch: bool,
    rows: int,
    shapes: bool,
    sort: str,
    trace: Path | None,
    script: Path,
    arguments: tuple[str, ...],
) -> None:
    """Run a Python SCRIPT with its ARGUMENTS, and print which kernels its time went to.

    Times are those of kernels on the host; rates are what the texts count, by these times. The
    table comes when the script ends, fails or is interrupted. `prepare NAME` is the wait for an
    executable: long in a first run, where compilers make it.
    """
    if trace is not None:
        check_writable(trace, "--trace")
    from tcdsl.profiler import profile as profiled  # on use: it needs NumPy

    if as_torch:
        from tcdsl.as_torch import install

        install()
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.resolve().parent))
    prof = profiled()
    prof.start()
    try:
        runpy.run_path(str(script), run_name="__main__")
    finally:
        prof.stop()
        say(prof.key_averages(shapes).table(sort_by=sort, row_limit=rows), err=True)
        if trace is not None:
            prof.export_chrome_trace(trace)
