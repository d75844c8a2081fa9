"""`tcdsl check`, `show`, `emit`, `run`: from a text to its results."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tcdsl.cli.app import (
    DEF,
    FILE,
    GENERIC,
    JSON,
    RANK,
    at_rank,
    generics_of,
    kernels,
    main,
    one_kernel,
    print_json,
)
from tcdsl.cli.sizes import parse_sizes

if TYPE_CHECKING:
    import numpy as np

    from tcdsl.kernel import Kernel


@main.command()
@FILE
@RANK
@JSON
def check(file: str, rank: int | None, as_json: bool) -> None:
    """Check the definitions of FILE and print their signatures.

    Faults are shown with their places and cures, warnings too; the exit code is 1 if there is a
    fault. Generics without a default are tried with 1, type variables with float32.
    """
    from tcdsl.describe import describe, signature

    variants = []
    for kernel in kernels(file):
        generics = generics_of(kernel, (), default=1)
        variants.append(at_rank(kernel, rank, generics).variant(**generics))
    if as_json:
        print_json([describe(v, None) for v in variants])
        return
    for variant in variants:
        click.echo(signature(variant.checked))


@main.command()
@FILE
@DEF
@click.option("--sizes", help="B=100,M=128: shows leaf forms, bytes and flops too.")
@RANK
@GENERIC
@JSON
def show(
    file: str,
    def_name: str | None,
    sizes: str | None,
    rank: int | None,
    given: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show what is inferred of a definition: shapes, ranges, and the form of each statement."""
    from tcdsl.describe import describe

    kernel = one_kernel(file, def_name)
    generics = generics_of(kernel, given)
    wanted = list(parse_sizes(sizes)) if sizes else [None]
    variant = at_rank(kernel, rank, generics, wanted[0]).variant(**generics)
    shown = [describe(variant, s) for s in wanted]
    if as_json:
        print_json(shown)
        return
    for one in shown:
        _print_description(one)


def _print_description(one: Mapping[str, Any]) -> None:
    click.echo(one["signature"])
    for t in one["tensors"]:
        extents = f" = {tuple(t['extents'])}" if "extents" in t else ""
        click.echo(f"  {t['role']:6} {t['name']}: {t['type']} ({', '.join(t['shape'])}){extents}")
    for condition in one["conditions"]:
        click.echo(f"  each call checks: {condition}")
    for s in one["statements"]:
        click.echo(f"  {s['text']}")
        for name, interval in s["ranges"].items():
            kind = "  summed over" if name in s["reductions"] else ""
            click.echo(f"      {name} in {interval}{kind}")
        if "form" in s:
            click.echo(f"      {s['form']}")
    if "flops" in one:
        per_byte = one["flops"] / max(one["bytes"], 1)
        click.echo(f"  {one['flops']:,} flops, {one['bytes']:,} bytes, {per_byte:.1f} flops/byte")


@main.command()
@FILE
@DEF
@click.option("--sizes", help="Bake these sizes in; without, the kernel takes any.")
@click.option("--target", help="cpu, cuda or cuda:sm_90; by default cpu, with --standalone cuda.")
@click.option("--tuned", is_flag=True, help="Use the tuned config of these sizes, if there is one.")
@click.option(
    "--standalone",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write CUDA text that compiles alone, and a C header that says how to start it.",
)
@click.option("--cubin", is_flag=True, help="With --standalone: write the machine code too.")
@RANK
@GENERIC
def emit(
    file: str,
    def_name: str | None,
    sizes: str | None,
    target: str | None,
    tuned: bool,
    standalone: Path | None,
    cubin: bool,
    rank: int | None,
    given: tuple[str, ...],
) -> None:
    """Print the C or CUDA text of a definition.

    For `--target cuda` the architecture is that of the GPU at hand, or a usual one. No GPU is
    needed, nor for `--cubin`.
    """
    if cubin and standalone is None:
        raise click.UsageError("--cubin goes with --standalone DIR")
    if standalone is not None and target == "cpu":
        raise click.UsageError("--standalone is for a GPU: expected --target cuda or cuda:sm_90")
    kernel = one_kernel(file, def_name)
    wanted = list(parse_sizes(sizes)) if sizes is not None else [None]
    generics = generics_of(kernel, given)
    kernel = at_rank(kernel, rank, generics, wanted[0])
    if standalone is None:
        for values in wanted:
            text = kernel.text(values, target=target or "cpu", tuned=tuned, **generics)
            click.echo(text, nl=False)
        return
    if len(wanted) != 1:
        raise click.UsageError("--standalone takes one set of sizes")
    files = kernel.standalone(wanted[0], target=target or "cuda", tuned=tuned, **generics)
    for path in files.write(standalone, with_cubin=cubin):
        click.echo(path)


@main.command()
@FILE
@DEF
@click.option("--sizes", help="Sizes of random inputs; not needed where --input gives them.")
@click.option("--input", "inputs", multiple=True, metavar="NAME=FILE.npy", help="An argument.")
@click.option("--output", "outputs", multiple=True, metavar="NAME=FILE.npy", help="Keep a result.")
@click.option("--seed", default=0, show_default=True, help="Of the random inputs.")
@click.option("--target", default="cpu", show_default=True, help="cpu, cuda, or cuda:1 for GPU 1.")
@RANK
@GENERIC
@click.option("--check/--no-check", "is_checked", default=True, help="Hold against the reference.")
@JSON
def run(
    file: str,
    def_name: str | None,
    sizes: str | None,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    seed: int,
    target: str,
    rank: int | None,
    given: tuple[str, ...],
    is_checked: bool,
    as_json: bool,
) -> None:
    """Run a definition on .npy files or on random inputs, and check the answer.

    For a GPU the inputs are moved there. The answer is held against the reference evaluator; the
    exit code is 1 if it is wrong.
    """
    import numpy as np

    from tcdsl.trial_run import device_named, run_once

    device = device_named(target)
    kernel = one_kernel(file, def_name)
    generics = generics_of(kernel, given)
    arrays = {name: np.load(path) for name, path in map(_pair, inputs)}
    keep = dict(map(_pair, outputs))
    wanted = list(parse_sizes(sizes)) if sizes else [{}]
    if rank is None:
        kernel = _bound_to(kernel, arrays)
    kernel = at_rank(kernel, rank, generics, wanted[0])
    reports = []
    for values in wanted:
        report, results = run_once(kernel, values, arrays, seed, is_checked, generics, device)
        for name, path in keep.items():
            if name not in results:
                known = ", ".join(results)
                raise click.UsageError(f"{kernel.name} has no return '{name}', but {known}")
            np.save(path, results[name])
        reports.append(report)
        if not as_json:
            _print_run(report)
    if as_json:
        print_json(reports)
    if not all(r["right"] is not False for r in reports):
        raise click.exceptions.Exit(1)


def _bound_to(kernel: Kernel, arrays: Mapping[str, np.ndarray[Any, Any]]) -> Kernel:
    """Return a kernel with the ranks of arrays; others have those of the first."""
    from tcdsl.grammar.ellipsis import fixed_dims, has_any_rank, shapes_of_rank

    params = kernel.definition.params
    given = [(p, arrays[p.name].ndim) for p in params if p.name in arrays and has_any_rank(p)]
    if not given:
        return kernel
    first, rank = given[0]
    shapes = shapes_of_rank(kernel.definition, max(0, rank - len(fixed_dims(first))))
    return kernel.with_shapes(
        *(
            arrays[p.name].shape if p.name in arrays else shape
            for p, shape in zip(params, shapes, strict=True)
        )
    )


def _pair(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if not equals or not path:
        raise click.UsageError(f"expected NAME=FILE.npy, got '{text}'")
    return name, path


def _print_run(report: Mapping[str, Any]) -> None:
    sizes = " ".join(f"{k}={v}" for k, v in report["sizes"].items())
    click.echo(f"{report['name']} {sizes}: first call {report['first_call_ms']:.1f} ms")
    for result in report["results"]:
        shape = ", ".join(map(str, result["shape"]))
        text = f"  {result['name']}: {result['type']} ({shape})"
        if "error" in result:
            verdict = "right" if result["right"] else "WRONG"
            text += f"  {verdict}, off by {result['error']:.2g}, allowed {result['allowed']:.2g}"
        click.echo(text)
