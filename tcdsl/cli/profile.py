"""`tcdsl profile`: what a script spends its time on, kernel by kernel."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType

import click

from tcdsl.cli.app import EXIT_FAULT, as_python_warns, check_writable, main, say
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
    prof, process = profiled(), os.getpid()
    prof.start()
    try:
        try:
            with as_python_warns():
                _run(script)
        finally:
            prof.stop()
    except Exception as error:  # whatever it is, Python would tell where
        _tell(error, script)
        click.get_current_context().exit(EXIT_FAULT)
    finally:
        if os.getpid() == process:  # no child that the script has forked
            say(prof.key_averages(shapes).table(sort_by=sort, row_limit=rows), err=True)
            if trace is not None:
                prof.export_chrome_trace(trace)


def _run(script: Path) -> None:
    """Run a script as Python does: it stays `__main__`, and knows where it lies."""
    main_module = ModuleType("__main__")
    path = main_module.__file__ = str(script.absolute())
    sys.modules["__main__"] = main_module
    text = compile(script.read_bytes(), path, "exec", dont_inherit=True)
    exec(text, main_module.__dict__)


def _tell(error: Exception, script: Path) -> None:
    """Print an error with its places, from the script on."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != str(script.absolute()):
        trace = trace.tb_next
    sys.excepthook(type(error), error.with_traceback(trace), trace)
