"""What all commands share: the group, errors and exit codes, reading a text."""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from tcdsl.text.instead import instead

if TYPE_CHECKING:
    from tcdsl.kernel import Kernel

_pythons = warnings.showwarning
EXIT_FAULT, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130
_IMPORTED = {"scikit-learn": "sklearn"}  # packages that are imported by another name


class CommandGroup(click.Group):
    """Prints our errors as they are, without a traceback, and exits with 1."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            from tcdsl.grammar.text.errors import TCError

            try:
                with warnings.catch_warnings():
                    warnings.showwarning = _say_warning
                    return super().invoke(ctx)
            except TCError as error:
                say(f"{error}{_how_to_give(error)}", err=True)
                ctx.exit(EXIT_FAULT)
            except MemoryError as error:
                say(f"there is no memory for this: {error}", err=True)
                ctx.exit(EXIT_FAULT)
            except BrokenPipeError:  # click ends quietly, as the other end expects
                raise
            except OSError as error:
                where = "" if error.filename is None else f"'{error.filename}': "
                say(f"{where}{error.strerror or error}", err=True)
                ctx.exit(EXIT_FAULT)
        except KeyboardInterrupt:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second one finds us leaving already
            click.echo("interrupted", err=True)
            ctx.exit(EXIT_INTERRUPTED)


def _how_to_give(error: Exception) -> str:
    """Return how a command line gives what an error misses, "" for others."""
    from tcdsl.calls.bindings.sizes import MissingSizesError

    return f"\n  as in --sizes {error.hint}" if isinstance(error, MissingSizesError) else ""


def _say_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning about a text or a call as it is: no line of ours helps who wrote the text."""
    say(str(message) if category is UserWarning else f"{category.__name__}: {message}", err=True)


@contextmanager
def as_python_warns() -> Iterator[None]:
    """Print warnings of the body as Python does: it is a program of the user's."""
    before, warnings.showwarning = warnings.showwarning, _pythons
    try:
        yield
    finally:
        warnings.showwarning = before


def time_span(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    """Refuse seconds and days that nobody can wait for: negative, endless, NaN."""
    if value is not None and not 0 <= value < math.inf:
        raise click.BadParameter(f"expected a number from 0 on, got {value}", ctx, param)
    return value


def check_writable(path: Path, option: str) -> None:
    """Refuse a path that no file can be written to, before anything is computed for it."""
    if path.is_dir():
        raise click.UsageError(f"{option}: '{path}' is a directory, expected a file")
    if not path.parent.is_dir():
        raise click.UsageError(f"{option}: there is no folder '{path.parent}'")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise click.UsageError(f"{option}: '{path}' cannot be written")


def check_installed(*packages: str) -> None:
    """Refuse what needs packages of `tcdsl[demo]` that are missing, before anything is computed."""
    missing = [p for p in packages if find_spec(_IMPORTED.get(p, p)) is None]
    if missing:
        raise click.ClickException(f'this needs {" and ".join(missing)}: pip install "tcdsl[demo]"')


def say(text: str, *, err: bool = False) -> None:
    """Print a text that may come from a file: what a terminal would obey is shown as U+FFFD."""
    from tcdsl.grammar.text.excerpt import printable

    click.echo(printable(text), err=err)


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tcdsl")
def main() -> None:
    """Tensor comprehensions: write a layer as mathematics, get a fast kernel for it.

    FILE is a text of definitions; `-` reads standard input. A command exits with 0 if all went
    well, 1 for a fault in the text or the call (fmt: 123), 2 for wrong usage, 130 if interrupted.
    """


FILE = click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
DEF = click.option("--def", "def_name", metavar="NAME", help="The definition, if FILE has several.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
CACHE = click.option(
    "--cache", type=click.Path(dir_okay=False, path_type=Path), help="SQLite file of tuned configs."
)


GENERIC = click.option(
    "--generic",
    "given",
    multiple=True,
    metavar="NAME=VALUE",
    help="An integer, or a type such as float64; type variables are float32 otherwise.",
)


RANK = click.option(
    "--rank",
    type=click.IntRange(0, 16),
    help="For how many dimensions each `...` stands; by default what --sizes says, or 2.",
)


def at_rank(
    kernel: Kernel,
    rank: int | None,
    generics: Mapping[str, Any],
    sizes: Collection[str] | None = None,
) -> Kernel:
    """Return a kernel with the ranks that a command asks for, or that the names of sizes tell.

    Where neither does, a usual rank is taken, and said.
    """
    if not kernel.has_any_rank:
        return kernel
    if rank is None and sizes:
        rank = kernel.session.ranks.named(kernel.definition, sizes)
    if rank is None:
        rank = kernel.session.check_now(kernel.definition, generics)
        noun = "dimension" if rank == 1 else "dimensions"
        click.echo(f"{kernel.name}: '...' stands for {rank} {noun} here, see --rank", err=True)
    return kernel.with_rank(rank)


def generics_of(kernel: Kernel, given: Sequence[str], default: int | None = None) -> dict[str, Any]:
    """Return values for the generics of a definition.

    Integer generics that have neither a value nor a default get the one given here, if any.
    """
    from tcdsl.grammar.text.heads import type_variables
    from tcdsl.grammar.types.dtypes import BY_NAME, FLOAT32

    known = {g.name: g.default for g in kernel.definition.generics}
    values: dict[str, Any] = dict.fromkeys(type_variables(kernel.definition), FLOAT32)
    if default is not None:
        values |= {n: default for n, d in known.items() if d is None and n not in values}
    for text in given:
        name, _, value = text.partition("=")
        if name not in known:
            raise click.UsageError(f"{kernel.name} has no generic '{name}'{instead(name, known)}")
        if name in type_variables(kernel.definition):
            if value not in BY_NAME:
                raise click.UsageError(f"'{value}' is no type: expected {', '.join(BY_NAME)}")
            values[name] = BY_NAME[value]
        else:
            try:
                values[name] = int(value)
            except ValueError:
                message = f"expected an integer for '{name}', got '{value:.40}'"
                raise click.UsageError(message) from None
    return values


def read(file: str) -> tuple[str, str]:
    """Return a text and the name to show it under."""
    name = "<stdin>" if file == "-" else file
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return data.decode("utf-8-sig"), name  # some editors begin a text with a mark
    except UnicodeDecodeError as error:
        raise click.ClickException(f"{name} is not UTF-8 text: {error}") from None


def kernels(file: str, **settings: Any) -> list[Kernel]:
    """Return all kernels of a file."""
    from tcdsl.definitions import define_all

    text, name = read(file)
    return [*define_all(text, source=name, **settings)]


def one_kernel(file: str, def_name: str | None, **settings: Any) -> Kernel:
    """Return the kernel that a command is about."""
    found = kernels(file, **settings)
    names = [k.name for k in found]
    if def_name is None and len(found) > 1:
        raise click.UsageError(f"{file} has {', '.join(names)}: choose one with --def")
    for kernel in found:
        if def_name in (None, kernel.name):
            return kernel
    raise click.UsageError(f"{file} has no definition '{def_name}'{instead(str(def_name), names)}")


def let_blas_sleep() -> None:
    """Let NumPy's BLAS threads sleep after a call; must run before numpy is imported.

    They spin by default and would take the cores from whatever is timed next.
    """
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")


def print_json(value: object) -> None:
    """Print a value as JSON."""
    click.echo(json.dumps(value, indent=2, default=str))
