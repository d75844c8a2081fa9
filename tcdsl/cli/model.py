"""`tcdsl autotune package.module:Class`: a module of PyTorch and random inputs for it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from tcdsl.cli.app import print_json

_TARGET = re.compile(r"([A-Za-z_][\w.]*):([A-Za-z_][\w.]*)")


class FileOrClass(click.Path):
    """A file of definitions, or `package.module:Class`, which no file is called."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the text as it came; a file has to be there."""
        if is_class(str(value)):
            return value
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            module, _, name = str(value).rpartition(".")
            if not _TARGET.fullmatch(f"{module}:{name}") or not name[:1].isupper():
                raise
            text = f"{error.message}\n  a class is named {module}:{name}"
            raise click.BadParameter(text, ctx, param) from None


def is_class(target: str) -> bool:
    """Whether a target names a class, and not a file."""
    return bool(_TARGET.fullmatch(target)) and not os.path.exists(target)


def tune_class(
    target: str,
    inputs: Sequence[str],
    arguments: Sequence[str],
    *,
    device: str,
    dtype: str | None,
    training: bool,
    seconds: float | None,
    trials: int | None,
    seed: int,
    cache: Path | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Build a module, run it on random inputs, tune what it calls, print a table.

    Raises
    ------
    click.UsageError
        If there is no such class, or its arguments or inputs do not fit.
    TCError
        If it calls no kernel of ours.
    """
    from tcdsl.grammar.text.errors import TCTypeError

    try:
        from tcdsl.torch import named
        from tcdsl.torch.tuning import autotune
    except ImportError as error:
        if error.name != "torch":
            raise
        raise click.ClickException(str(error)) from None
    if not inputs:
        raise click.UsageError(f"{target} needs inputs: --input 32,3,224,224 for each")
    try:
        module, given = named.module_and_inputs(target, inputs, arguments, device, dtype, seed)
    except TCTypeError as error:
        raise click.UsageError(str(error)) from None
    tuned = autotune(
        module,
        *given,
        training=training,
        seconds=seconds,
        trials=trials,
        seed=seed,
        cache=cache,
        quiet=quiet,
    )
    if not tuned.rows:
        raise KeyboardInterrupt  # stopped before anything was found: it was no success
    if as_json:
        rows = [
            {
                "name": row.name,
                "key": row.key.digest,
                "config": None if row.config is None else dict(row.config.items),
                "default_ns": row.default_ns,
                "time_ns": row.time_ns,
                "why": row.why,
            }
            for row in tuned.rows
        ]
        print_json(rows)
    else:
        click.echo(tuned)
