"""`tcdsl grad`: the gradient of a definition as text."""

from __future__ import annotations

import click

from tcdsl.cli.app import DEF, FILE, GENERIC, RANK, at_rank, generics_of, main, one_kernel


@main.command()
@FILE
@DEF
@click.option("--forward", is_flag=True, help="Print the training forward in front of it.")
@click.option(
    "--wrt",
    metavar="NAMES",
    help="The float parameters that it is by, as in W,b; by default all.",
)
@click.option(
    "--checkpoint",
    type=click.IntRange(1),
    metavar="TURNS",
    help="Keep the state of loops before every so many turns only, and run those between again.",
)
@click.option("--jvp", is_flag=True, help="Print the Jacobian-vector product: tangents, forwards.")
@click.option("--shapes", is_flag=True, help="Print the shape of every result.")
@RANK
@GENERIC
def grad(
    file: str,
    def_name: str | None,
    forward: bool,
    wrt: str | None,
    checkpoint: int | None,
    jvp: bool,
    shapes: bool,
    rank: int | None,
    given: tuple[str, ...],
) -> None:
    """Print the gradient of a definition: a definition of the same language.

    It takes the definition's parameters, what is kept of the forward pass, and `d_O` for each float
    return; it returns `d_X` for each float parameter, or for those of `--wrt`. The training forward
    is the definition with what is kept as further returns. Printed with `--forward`, the text has
    both.

    With `--jvp` it is the derivative forwards: it takes the definition's parameters and `t_X` for
    each of them, and returns the definition's results and `t_O` for each float one.

    Results whose shape follows from the statements are printed as names alone, without `--shapes`.
    """
    from tcdsl.codegen.gradient.jvp import tangents
    from tcdsl.codegen.gradient.text import with_bare_results
    from tcdsl.codegen.gradient.vjp import gradient

    if jvp and (forward or checkpoint is not None):
        raise click.UsageError("--jvp keeps nothing: it goes without --forward and --checkpoint")
    kernel = one_kernel(file, def_name)
    generics = generics_of(kernel, given)
    names = None if wrt is None else [n.strip() for n in wrt.split(",")]
    checked = at_rank(kernel, rank, generics).variant(**generics).checked
    if jvp:
        texts = [tangents(checked, names).text]
    else:
        made = gradient(checked, checkpoint, names)
        texts = [made.forward, made.text] if forward else [made.text]
    click.echo("\n".join(texts if shapes else map(with_bare_results, texts)), nl=False)
