"""`tcdsl fmt`: texts in the one pretty layout, their comments kept."""

from __future__ import annotations

import contextlib
import difflib
import errno
import os
import shutil
import sys
import tempfile
from pathlib import Path

import click

from tcdsl.cli.app import main, say

EXIT_CHANGES, EXIT_REFUSED = 1, 123  # as black's
_MARK = "\ufeff"  # some editors begin UTF-8 with it


@main.command()
@click.argument(
    "files",
    nargs=-1,
    required=True,
    metavar="FILE...",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
)
@click.option("--check", "is_check", is_flag=True, help="Write nothing: the exit code tells.")
@click.option("--diff", "is_diff", is_flag=True, help="Write nothing: print what would change.")
def fmt(files: tuple[str, ...], is_check: bool, is_diff: bool) -> None:
    """Write each FILE anew in the one pretty layout; `-` is from standard input to output.

    Comments stay where they are, and one empty line where there were some; parentheses that change
    nothing go. A FILE that does not parse stays as it is, and its faults are shown.

    The exit codes are those of black: 0 if all went well, 1 with --check if a FILE would change,
    123 if one was refused.
    """
    from tcdsl.grammar.text.errors import TCError

    changed = refused = 0
    for file in files:
        name = "<stdin>" if file == "-" else file
        try:
            is_changed = _format(file, name, is_check, is_diff)
        except TCError as error:
            say(str(error), err=True)
            refused += 1
        except UnicodeDecodeError as error:
            say(f"{name} is not UTF-8 text: {error}", err=True)
            refused += 1
        except OSError as error:
            if isinstance(error, BrokenPipeError):  # click ends quietly, as the other end expects
                raise
            say(f"'{name}': {error.strerror or error}", err=True)
            refused += 1
        else:
            changed += is_changed
    if refused:
        raise click.exceptions.Exit(EXIT_REFUSED)
    if changed and is_check:
        raise click.exceptions.Exit(EXIT_CHANGES)


def _format(file: str, name: str, is_check: bool, is_diff: bool) -> bool:
    """Format a file as the options ask; return whether its text changes."""
    from tcdsl.grammar.text.layout import format_text

    path = None if file == "-" else Path(file).resolve()  # a link stays a link
    if path is not None and not path.is_file():
        raise OSError(errno.EINVAL, "it is no file that can be replaced")
    data = sys.stdin.buffer.read() if path is None else path.read_bytes()
    old = data.decode("utf-8")
    mark = _MARK if old.startswith(_MARK) else ""
    text = old.removeprefix(mark)
    first_line, _, _ = text.partition("\n")
    new = format_text(text.replace("\r\n", "\n"), name)
    new = mark + (new.replace("\n", "\r\n") if first_line.endswith("\r") else new)
    if is_diff:
        _print_diff(old, new, name)
    elif path is None and not is_check:
        sys.stdout.buffer.write(new.encode())
    elif path is not None and new != old and not is_check:
        _replace(path, new.encode())
    if new != old and path is not None:
        would = "would be " if is_check or is_diff else ""
        say(f"{would}formatted: {name}", err=True)
    return new != old


def _print_diff(old: str, new: str, name: str) -> None:
    """Print how a text changes, in the form that `patch` takes."""
    before, after = (text.splitlines(keepends=True) for text in (old, new))
    for line in difflib.unified_diff(before, after, name, name):
        whole = line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        if sys.stdout.isatty():
            say(whole.removesuffix("\n"))
        else:
            click.echo(whole, nl=False)


def _replace(path: Path, data: bytes) -> None:
    """Put a file in the place of one, which nobody sees half written and which keeps its mode."""
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    handle, made = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        shutil.copymode(path, made)
        os.replace(made, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(made)
        raise
