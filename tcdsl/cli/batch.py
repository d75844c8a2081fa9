"""`tcdsl batch`: a definition over a batch as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tcdsl.cli.app import DEF, FILE, main, one_kernel, say
from tcdsl.text.instead import instead

if TYPE_CHECKING:
    from tcdsl.grammar.batch.definition import Randomness


@main.command()
@FILE
@click.argument("params", nargs=-1, metavar="[PARAM[=DIM]]...")
@DEF
@click.option(
    "--out", "out_dim", type=int, default=0, metavar="DIM", help="Where outputs have the batch."
)
@click.option(
    "--randomness",
    type=click.Choice(("same", "different")),
    default="same",
    help="Whether `rand` of one seed gives each element the same numbers.",
)
def batch(
    file: str, params: tuple[str, ...], def_name: str | None, out_dim: int, randomness: Randomness
) -> None:
    """Print a definition over a batch: with one more index.

    PARAM has the batch as its first dimension, or as DIM, which counts from the last if it is
    negative; all parameters have it if none is named. What does not depend on it stays as it is.
    """
    from tcdsl.grammar.text.format import format_program

    kernel = one_kernel(file, def_name)
    in_dims = dict(_place(p, kernel.params) for p in params)
    over = kernel.batched(in_dims, out_dims=out_dim, randomness=randomness)
    say(format_program(over.session.program).rstrip("\n"))


def _place(text: str, params: tuple[str, ...]) -> tuple[str, int]:
    name, _, place = text.partition("=")
    if name not in params:
        raise click.UsageError(f"no parameter '{name}'{instead(name, params)}")
    try:
        return name, int(place or 0)
    except ValueError:
        message = f"expected a dimension for '{name}', got '{place:.40}'"
        raise click.UsageError(message) from None
