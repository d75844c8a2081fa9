"""`tcdsl check`, `show`, `emit`, `run`: from a text to its results."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tcdsl.cli.app import (
    DEF,
    EXIT_FAULT,
    FILE,
    GENERIC,
    JSON,
    RANK,
    at_rank,
    check_writable,
    generics_of,
    kernels,
    main,
    one_kernel,
    print_json,
)
from tcdsl.cli.sizes import parse_sizes
from tcdsl.text.instead import instead

if TYPE_CHECKING:
    import numpy as np

    from tcdsl.calls.bindings.variant import Variant
    from tcdsl.kernel import Kernel


@main.command()
@FILE
@RANK
@JSON
def check(file: str, rank: int | None, as_json: bool) -> None:
    """Check the definitions of FILE and print their signatures.

    Faults are shown with their places and cures, warnings too; the exit code is 1 if there is a
    fault. Generics without a default are tried with 1, type variables with float32.

    --json prints definitions and diagnostics as data on standard output: for each diagnostic
    severity, code, message, label, its span (file; line and column from 1; the end is behind its
    last character), and notes.
    """
    from tcdsl.grammar.text.errors import Diagnostic, TCError
    from tcdsl.tools.describe import describe, signature_line

    if not as_json:
        for variant in _checked(file, rank):
            click.echo(signature_line(variant.checked))
        return
    shown: list[dict[str, Any]] = []
    diagnostics: list[Diagnostic] = []
    is_right = True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are among the diagnostics
        try:
            for variant in _checked(file, rank):
                shown.append(describe(variant, None))
                diagnostics += variant.checked.warnings
        except TCError as error:
            is_right = False
            diagnostics += error.diagnostics or (Diagnostic("", str(error)),)
    print_json({"definitions": shown, "diagnostics": [d.as_dict() for d in diagnostics]})
    if not is_right:
        raise click.exceptions.Exit(EXIT_FAULT)


def _checked(file: str, rank: int | None) -> Iterator[Variant]:
    """Yield the definitions of a file, each checked."""
    for kernel in kernels(file):
        generics = generics_of(kernel, (), default=1)
        yield at_rank(kernel, rank, generics).variant(**generics)


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
    from tcdsl.tools.describe import describe

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
    if one.get("open"):
        click.echo(f"  calls share an executable for any {', '.join(one['open'])}")
    if one.get("is_rank_free"):
        click.echo(
            "  calls share an executable for any sizes and rank; the forms are those of emit"
        )
    if "flops" in one:
        per_byte = one["flops"] / max(one["bytes"], 1)
        click.echo(f"  {one['flops']:,} flops, {one['bytes']:,} bytes, {per_byte:.1f} flops/byte")


@main.command()
@FILE
@DEF
@click.option(
    "--sizes",
    help="Bake these sizes in, as calls do: the number of images of a convolution stays open. "
    "Without, the kernel takes any.",
)
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
    """Print the C or CUDA text of a definition: what calls run, says its first comment.

    Calls of a pointwise definition on the CPU share texts of all ranks and sizes; this prints that
    of its own rank.

    For `--target cuda` the architecture is that of the GPU at hand, or a usual one. No GPU is
    needed, nor for `--cubin`.
    """
    if tuned and sizes is None:
        raise click.UsageError("--tuned needs --sizes: a config is tuned for sizes")
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
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the random inputs."
)
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

    from tcdsl.tools.checked_run import device_named, load_array, run_once

    device = device_named(target)
    kernel = one_kernel(file, def_name)
    generics = generics_of(kernel, given)
    paths = _pairs(inputs, "--input", "parameter", kernel.name, kernel.params)
    keep = _pairs(outputs, "--output", "return", kernel.name, kernel.returns)
    for path in keep.values():
        check_writable(path, "--output")
    wanted = list(parse_sizes(sizes)) if sizes else [{}]
    if keep and len(wanted) > 1:
        raise click.UsageError("--output takes one set of sizes: each would replace the last")
    arrays = {name: load_array(path, name) for name, path in paths.items()}
    if rank is None:
        kernel = _bound_to(kernel, arrays)
    kernel = at_rank(kernel, rank, generics, wanted[0])
    reports = []
    for values in wanted:
        report, results = run_once(kernel, values, arrays, seed, is_checked, generics, device)
        for name, path in keep.items():
            with path.open("wb") as file_:  # by its own name: np.save would add .npy to it
                np.save(file_, results[name])
        reports.append(report)
        if not as_json:
            _print_run(report)
    if as_json:
        print_json(reports)
    if not all(r["right"] is not False for r in reports):
        raise click.exceptions.Exit(1)


def _bound_to(kernel: Kernel, arrays: Mapping[str, np.ndarray[Any, Any]]) -> Kernel:
    """Return a kernel with the ranks of arrays; others have those of the first."""
    from tcdsl.grammar.text.heads import fixed_dims, has_any_rank, shapes_of_rank

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


def _pairs(
    texts: Sequence[str], option: str, what: str, kernel: str, known: Sequence[str]
) -> dict[str, Path]:
    """Return the files of an option that is given as NAME=FILE.npy, by the names."""
    found: dict[str, Path] = {}
    for text in texts:
        name, equals, path = text.partition("=")
        if not equals or not path:
            raise click.UsageError(f"{option}: expected NAME=FILE.npy, got '{text}'")
        if name not in known:
            raise click.UsageError(f"{kernel} has no {what} '{name}'{instead(name, known)}")
        if name in found:
            raise click.UsageError(f"{option}: '{name}' is given twice")
        found[name] = Path(path)
    return found


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
