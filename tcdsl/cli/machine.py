"""`tcdsl doctor`: what this machine has, what is missing, and the cure."""

from __future__ import annotations

import click

from tcdsl.cli.app import JSON, main, print_json

_WIDTH = 10  # of the names


@main.command()
@click.option("--quick", is_flag=True, help="Leave out the measurements (about two seconds).")
@JSON
def doctor(quick: bool, as_json: bool) -> None:
    """Look at compiler, processor, caches, threads and GPU; say what to do about faults.

    The exit code is 1 if kernels cannot be compiled or run here.
    """
    from tcdsl.tools.doctor import examine

    findings = []
    for finding in examine(measure=not quick):
        findings.append(finding)
        if not as_json:  # at once: some of it takes a while
            click.echo(f"{finding.mark} {finding.name:{_WIDTH}}  {finding.value}")
            for line in finding.cure.splitlines():
                click.echo(f"  {'':{_WIDTH}}  -> {line}")
    if as_json:
        print_json([f.as_dict() for f in findings])
    if any(f.state == "broken" for f in findings):
        raise click.exceptions.Exit(1)
