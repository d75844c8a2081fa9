"""`tcdsl explain`: what the code of a fault means, and the language reference."""

from __future__ import annotations

import click

from tcdsl.cli.app import main
from tcdsl.text.instead import instead


@main.command()
@click.argument("code", required=False)
def explain(code: str | None) -> None:
    """Explain a CODE of a fault, such as the one of `error[TC104]`; without, print the reference.

    The reference is grammar/LANGUAGE.md: the language by example, every construct, builtin, and
    code.
    """
    from tcdsl.grammar.text.codes import explanations, reference

    if code is None:
        click.echo(reference(), nl=False)
        return
    known = explanations()
    found = known.get(code.upper())
    if found is None:
        raise click.UsageError(f"there is no code '{code:.40}'{instead(code.upper(), known)}")
    click.echo(f"{found.code}: {found.fault}\n  cure: {found.cure}")
    if found.example:
        click.echo(f"  for example: {found.example}")
