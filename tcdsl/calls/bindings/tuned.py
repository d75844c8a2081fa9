"""What tuning has found before: the config of a specialisation, or that of a relative."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tcdsl.autotune.search.cost_model import choose
from tcdsl.autotune.store import best
from tcdsl.autotune.store.key import ProblemKey
from tcdsl.autotune.store.tuning_file import warn_once
from tcdsl.autotune.targets.cpu.problem import key_of
from tcdsl.autotune.targets.space import space_of
from tcdsl.calls.bindings.variant import Variant
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.gpu import Gpu
from tcdsl.codegen.machine.spec import Spec

if TYPE_CHECKING:
    from tcdsl.autotune.store.shipped import Shipped


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
    space = space_of(variant.program, spec, variant.machine)
    chosen = choose(space, tuned)
    return None if chosen == space.default else chosen


def problem_key(variant: Variant, spec: Spec) -> ProblemKey:
    """Return the key that configs of a specialisation are found by."""
    if isinstance(variant.machine, Gpu):
        from tcdsl.autotune.targets.cuda.problem import (
            key_of as cuda_key_of,  # on use: the CPU does without
        )

        return cuda_key_of(variant.checked, spec, variant.machine)
    return key_of(variant.checked, spec, variant.machine)
