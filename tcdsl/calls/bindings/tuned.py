"""What tuning has found before: the config of a specialisation, or that of a relative."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tcdsl.autotune.store import best
from tcdsl.autotune.store.key import ProblemKey
from tcdsl.autotune.store.tuning_file import warn_once
from tcdsl.autotune.targets import structural_text
from tcdsl.autotune.targets.cpu.key import key_of
from tcdsl.autotune.targets.key import Structure
from tcdsl.calls.bindings.variant import Variant
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.gpu import Gpu
from tcdsl.codegen.machine.spec import Spec
from tcdsl.codegen.toolchain import records

if TYPE_CHECKING:
    from tcdsl.autotune.store.shipped import Shipped

_GAIN = 0.99  # times the default's: more is no gain


def tuned_config(
    variant: Variant, spec: Spec, database: Path, shipped: Shipped | None = None
) -> Config | None:
    """Return the config tuned for exactly this specialisation, or None.

    What was tuned here, in the database, comes before what came with a model: it was timed on this
    machine, and the other took part if `configs=` was given then. A file may say anything: what is
    no config of this program is refused with a warning.
    """
    key = problem_key(variant, spec)
    own = best.lookup(database, key)
    for config, where in (
        (None if own is None else own.config, str(database)),
        (None if shipped is None else shipped.lookup(key), "those that came with the model"),
    ):
        if config is None:
            continue
        if variant.is_legal(spec, config):
            return config
        warn_once(
            f"{variant.name}: the config in {where} is none of this program's: "
            f"{config!s:.200}; the default serves"
        )
    return None


def neighbour_config(
    variant: Variant, spec: Spec, database: Path, shipped: Shipped | None = None
) -> Config | None:
    """Return the config of another size where the model puts it above this size's default."""
    key = problem_key(variant, spec)
    tuned = best.relatives(database, key)
    if shipped is not None:
        tuned = best.nearest((*tuned, *shipped.relatives(key)), key)
    if not tuned:
        return None
    from tcdsl.autotune.search.cost_model import choose  # on use: where another size was tuned
    from tcdsl.autotune.targets.space import space_of

    space = space_of(variant.program, spec, variant.machine)
    chosen = choose(space, tuned)
    return None if chosen == space.default else chosen


def open_config(
    variant: Variant,
    exact: Spec,
    left_open: Spec,
    database: Path,
    shipped: Shipped | None = None,
) -> Config | None:
    """Return the config for an executable that leaves sizes open, or None.

    It is that of other values of just these sizes (another number of images), nearest first, less
    what calls plan. It serves where its forms leave them open, and where it is faster than the
    default by the times taken there and by what the model says of the difference to here.
    """
    assert exact.sizes is not None
    key = problem_key(variant, exact)
    tuned = best.relatives(database, key)
    if shipped is not None:
        tuned = best.nearest((*tuned, *shipped.relatives(key)), key)
    names = [name for name, _ in exact.sizes]
    for other in tuned:
        there = dict(zip(names, other.sizes, strict=True))
        is_near = all(there[name] == size for name, size in left_open.sizes or ())
        if not is_near or other.default_ns is None:
            continue
        if not other.time_ns < _GAIN * other.default_ns:  # before the model, which takes longer
            continue
        found = variant.opened_like(left_open, other.config, there, dict(exact.sizes))
        if found is not None:
            config, change = found
            if max(1.0, change) * other.time_ns < _GAIN * other.default_ns:
                return config
    return None


def problem_key(variant: Variant, spec: Spec) -> ProblemKey:
    """Return the key that configs of a specialisation are found by."""
    if isinstance(variant.machine, Gpu):
        from tcdsl.autotune.targets.cuda.problem import (
            key_of as cuda_key_of,  # on use: the CPU does without
        )

        return cuda_key_of(variant.checked, spec, variant.machine)
    return key_of(_structure(variant), spec, variant.machine)


def _structure(variant: Variant) -> Structure:
    """Return what tells a definition from others, by a record where there is one."""
    if variant.identity is None:
        return Structure.of(variant.checked)
    parts = variant.identity, _maker()
    found = records.read("structure", parts, _decoded)
    if found is None:
        found = Structure.of(variant.checked)
        records.write("structure", parts, [found.text, found.dtypes], variant.name)
    return found


@cache
def _maker() -> str:
    """Return the text of what makes structures: no part of the generator, which it stands on."""
    return Path(structural_text.__file__).read_text(encoding="utf-8")


def _decoded(value: object) -> Structure:
    match value:
        case [str(text), list(dtypes)] if all(isinstance(d, str) for d in dtypes):
            return Structure(text, tuple(map(str, dtypes)))
    raise ValueError("it is no structure of a definition")
