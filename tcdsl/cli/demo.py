"""`tcdsl demo`."""

from __future__ import annotations

from pathlib import Path

import click

from tcdsl.cli.app import (
    CACHE,
    check_installed,
    check_writable,
    let_blas_sleep,
    main,
    time_span,
)


@main.command("demo")
@click.option(
    "--seconds",
    type=float,
    callback=time_span,
    default=15.0,
    show_default=True,
    help="Budget of the tuning.",
)
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    default="tcdsl-demo.png",
    show_default=True,
    help="Where the tuning history is drawn.",
)
@CACHE
def demo_command(seconds: float, plot: Path, cache: Path | None) -> None:
    """Check, tune and time one layer; then train a classifier of handwritten digits.

    Takes about a minute.
    """
    check_writable(plot, "--plot")
    check_installed("matplotlib", "scikit-learn")
    let_blas_sleep()
    click.echo("a layer is checked, compiled, tuned and timed, then a classifier is trained\n")
    from tcdsl.tools.demo import demo

    demo(click.echo, plot, seconds, cache)
