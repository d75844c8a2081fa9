"""`tcdsl doctor`: what this machine has, what is missing, and the cure."""

from __future__ import annotations

import click

from tcdsl.cli.app import JSON, main, print_json


@main.command()
@click.option("--quick", is_flag=True, help="Leave out the measurements (about two seconds).")
@JSON
def doctor(quick: bool, as_json: bool) -> None:
    """Look at compiler, processor, caches, threads and GPU; say what to do about faults.

    The exit code is 1 if kernels cannot be compiled or run here.
    """
    from tcdsl.doctor import examine

    findings = examine(measure=not quick)
    if as_json:
        print_json([f.as_dict() for f in findings])
    else:
        width = max(len(f.name) for f in findings)
        for f in findings:
            click.echo(f"{f.mark} {f.name:{width}}  {f.value}")
            for line in f.cure.splitlines():
                click.echo(f"  {'':{width}}  -> {line}")
    if any(f.state == "broken" for f in findings):
        raise click.exceptions.Exit(1)
