"""`tcdsl autotune` and `tcdsl bench`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from tcdsl.cli.app import (
    CACHE,
    DEF,
    FILE,
    GENERIC,
    JSON,
    at_rank,
    generics_of,
    let_blas_sleep,
    main,
    one_kernel,
    print_json,
    time_span,
)
from tcdsl.cli.model import FileOrClass, is_class, tune_class
from tcdsl.cli.sizes import parse_sizes

_SIZES = "B=100,M=128; several: B=1|2|4 or B=1..64."
SIZES = click.option("--sizes", required=True, help=_SIZES)


@main.command()
@click.argument(
    "file",
    metavar="FILE|MODULE:CLASS",
    type=FileOrClass(exists=True, dir_okay=False, allow_dash=True),
)
@DEF
@click.option("--sizes", help=_SIZES)
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="SHAPE[:TYPE[:BOUND]]",
    help="Of a class: a random input, 32,3,224,224; integers below a bound, 8,128:int64:1000.",
)
@click.option(
    "--arg",
    "arguments",
    multiple=True,
    metavar="KEY=VALUE",
    help="Of a class: for its constructor.",
)
@click.option("--dtype", help="Of a class: the type of its parameters and inputs.")
@click.option(
    "--training/--inference",
    default=True,
    show_default=True,
    help="Of a class: whether to tune the way back too.",
)
@click.option("--seconds", type=float, callback=time_span, help="Budget for all sizes together.")
@click.option("--trials", type=click.IntRange(0), help="Budget of new trials for each size.")
@click.option("--seed", default=0, show_default=True, help="The same seed takes the same path.")
@GENERIC
@CACHE
@click.option(
    "--target", default="cpu", show_default=True, help="cpu, cuda, or cuda:sm_90 for such a GPU."
)
@click.option("--quiet", is_flag=True, help="No progress.")
@JSON
def autotune(
    file: str,
    def_name: str | None,
    sizes: str | None,
    inputs: tuple[str, ...],
    arguments: tuple[str, ...],
    dtype: str | None,
    training: bool,
    seconds: float | None,
    trials: int | None,
    seed: int,
    given: tuple[str, ...],
    cache: Path | None,
    target: str,
    quiet: bool,
    as_json: bool,
) -> None:
    """Search the fastest config of a definition at some sizes and keep it.

    MODULE:CLASS is a module of PyTorch, importable from here: its class, a function that gives one,
    or one that is made. It is run on random inputs, forward and backward, and every kernel of
    tcdsl.torch that it calls is tuned for the sizes and strides that it is called with.

    Without --seconds and --trials a search ends when it no longer gains. Ctrl-C keeps the best so
    far; running the command again goes on from there.
    """
    if is_class(file):
        if sizes is not None or def_name is not None or given:
            raise click.UsageError(f"{file} is a class: it takes --input, not --sizes, --def, ...")
        tune_class(
            file,
            inputs,
            arguments,
            device=_device(target),
            dtype=dtype,
            training=training,
            seconds=seconds,
            trials=trials,
            seed=seed,
            cache=cache,
            quiet=quiet,
            as_json=as_json,
        )
        return
    if inputs or arguments or dtype:
        raise click.UsageError(f"{file} is a text: it takes --sizes B=100,M=128")
    if sizes is None:
        raise click.UsageError("Missing option '--sizes'.")
    kernel = one_kernel(file, def_name)
    found = kernel.autotune(
        sizes=parse_sizes(sizes),
        seconds=seconds,
        trials=trials,
        seed=seed,
        cache=cache,
        target=target,
        quiet=quiet,
        **generics_of(kernel, given),
    )
    if not found:
        raise KeyboardInterrupt  # stopped before anything was found: it was no success
    if as_json:
        print_json([{"sizes": dict(s), "config": dict(c.items)} for s, c in found.items()])
        return
    for values, config in found.items():
        click.echo(" ".join(f"{k}={v}" for k, v in values))
        for name, value in config.items:
            click.echo(f"  {name} = {value}")


def _device(target: str) -> str:
    """Return torch's device for a target."""
    if target == "cpu":
        return target
    from tcdsl.calls.bindings.targets import gpu_to_tune_on

    gpu_to_tune_on(target)
    return "cuda"


@main.command()
@FILE
@DEF
@SIZES
@click.option(
    "--seconds",
    type=float,
    callback=time_span,
    default=2.0,
    show_default=True,
    help="Of timing, for each size.",
)
@GENERIC
@CACHE
@JSON
def bench(
    file: str,
    def_name: str | None,
    sizes: str,
    seconds: float,
    given: tuple[str, ...],
    cache: Path | None,
    as_json: bool,
) -> None:
    """Time a definition side by side: untuned, tuned if it was, and the reference in NumPy.

    Shows times per call, the rate and its share of this machine's peak, which is measured in turns
    with them.
    """
    let_blas_sleep()
    from tcdsl.tools.bench import bench_kernel

    kernel = one_kernel(file, def_name, cache=cache)
    generics = generics_of(kernel, given)
    wanted = list(parse_sizes(sizes))
    kernel = at_rank(kernel, None, generics, wanted[0])
    reports = []
    for values in wanted:
        if not as_json:
            click.echo(" ".join([kernel.name, *(f"{k}={v}" for k, v in values.items())]))
        reports.append(bench_kernel(kernel, values, seconds, generics))
        if not as_json:
            _print_bench(reports[-1])
    if as_json:
        print_json(reports)


def _print_bench(report: Mapping[str, Any]) -> None:
    for row in report["rows"]:
        share = "from caches" if row["share"] is None else f"{row['share']:5.0%} of peak"
        rate = f"{row['rate']:9.2f} {report['unit']}"
        click.echo(f"  {row['label']:10} {row['time_us']:10.2f} us {rate} {share}")
    click.echo(f"  {'peak':10} {'':10}    {report['peak']:9.2f} {report['unit']}")
    for note in report["notes"]:
        click.echo(f"  note: {note}")
