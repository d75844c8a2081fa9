"""`tcdsl warm`: compile texts before anybody calls them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tcdsl.cli.app import (
    CACHE,
    EXIT_FAULT,
    GENERIC,
    JSON,
    RANK,
    at_rank,
    generics_of,
    kernels,
    main,
    print_json,
    say,
)
from tcdsl.cli.sizes import parse_sizes
from tcdsl.text.instead import instead

if TYPE_CHECKING:
    from tcdsl.kernel import Kernel


@main.command()
@click.argument(
    "files",
    metavar="FILE...",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
)
@click.option("--def", "def_names", metavar="NAME", multiple=True, help="Of FILEs only these.")
@click.option("--sizes", help="B=100,M=128; several: B=1|2|4 or B=1..64. Without, any sizes.")
@click.option("--grad", is_flag=True, help="The gradients too, where floats come in and out.")
@click.option(
    "--wrt",
    metavar="NAMES",
    help="The float parameters that gradients are by, as in W,b; by default all.",
)
@RANK
@GENERIC
@CACHE
@click.option(
    "--jobs", type=click.IntRange(1), help="How many at a time; by default one for each core."
)
@click.option("--quiet", is_flag=True, help="No progress.")
@JSON
def warm(
    files: tuple[str, ...],
    def_names: tuple[str, ...],
    sizes: str | None,
    grad: bool,
    wrt: str | None,
    rank: int | None,
    given: tuple[str, ...],
    cache: Path | None,
    jobs: int | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Compile all definitions of FILEs, so that later calls wait for no compiler.

    Each is compiled for operands in C order and any sizes; with --sizes for those that it has of
    these, each combination, besides. Definitions are compiled on all cores. Ctrl-C keeps what is
    compiled by then. What could not be compiled is told at the end, and the exit code is 1.
    """
    from tcdsl.warming import failure, warmed

    if wrt is not None and not grad:
        raise click.UsageError("--wrt goes with --grad")
    found = [k for file in files for k in kernels(file, cache=cache)]
    names = {k.name: None for k in found}
    for name in def_names:
        if name not in names:
            raise click.UsageError(f"there is no definition '{name}'{instead(name, names)}")
    found = [k for k in found if not def_names or k.name in def_names]
    sets = parse_sizes(sizes) if sizes is not None else []
    generics = _generics(found, given)
    if rank is not None:
        found = [at_rank(k, rank, {}) for k in found]
    by = None if wrt is None else tuple(n.strip() for n in wrt.split(","))
    rows = warmed(found, sets, grad, by, jobs, quiet, generics)
    faults = [row for row in rows if row.error]
    if as_json:
        print_json(
            [
                {"name": r.name, "part": r.part, "sizes": r.sizes, "seconds": r.seconds,
                 "error": r.error}
                for r in rows
            ]
        )  # fmt: skip
    else:
        for row in rows:
            if not row.error:
                click.echo(f"{row.label}: {row.seconds:.2f} s")
    if faults:
        say(failure(len(faults), len(rows)), err=True)
        for row in faults:
            say(f"{row.label}: {row.error}", err=True)
        raise click.exceptions.Exit(EXIT_FAULT)


def _generics(found: Sequence[Kernel], given: Sequence[str]) -> dict[str, Any]:
    """Return values for generics, each of which one of the kernels has."""
    values: dict[str, Any] = {}
    for text in given:
        name = text.partition("=")[0]
        having = [k for k in found if any(g.name == name for g in k.definition.generics)]
        for kernel in having or found[:1]:  # which refuses a name that none has
            values[name] = generics_of(kernel, [text])[name]
    return values
