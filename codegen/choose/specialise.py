"""A program as its specialisation has it: decided, rewritten, and arranged as a config says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache, partial

from tcdsl.codegen.choose import forms
from tcdsl.codegen.choose.arrange import AnyForm, Arrangement, arrange
from tcdsl.codegen.choose.fuse import default_partition, partitions
from tcdsl.codegen.choose.nominal import nominal_sizes
from tcdsl.codegen.forms.base.regime import Asked
from tcdsl.codegen.machine.config import Config, Value
from tcdsl.codegen.machine.cpu import Machine
from tcdsl.codegen.machine.gpu import Gpu
from tcdsl.codegen.machine.spec import Layout, Spec
from tcdsl.codegen.preludes.abi import MAX_LOOPS
from tcdsl.codegen.program.decided import Sizes, decided
from tcdsl.codegen.program.fission import distributed
from tcdsl.codegen.program.group import Partition
from tcdsl.codegen.program.narrowed import narrowed
from tcdsl.codegen.program.pairs import in_pairs
from tcdsl.codegen.program.parted import parted
from tcdsl.codegen.program.program import Program
from tcdsl.codegen.program.proved import proved
from tcdsl.codegen.program.scans import along_rows
from tcdsl.codegen.program.settled import Settled, settled
from tcdsl.codegen.program.triangles import FAR, limits, masked
from tcdsl.codegen.program.widened import widened
from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.errors import ScheduleError
from tcdsl.grammar.types.dtypes import FLOAT32, DType

SETTLED = "settled"  # the knob of borders that are gone: no search has it


def arranged_for_all(
    program: Program, spec: Spec, config: Config, machine: Machine, sizes: Mapping[str, int]
) -> Arrangement:
    """Return a partition arranged for all sizes of the regime of these."""
    call = tuple(sorted(sizes.items()))
    usual = {**dict(nominal_sizes(program)), **dict(spec.sizes or ())}
    return arrangement_of(program, spec, config, machine, usual, call)


def arrangement_of(
    program: Program,
    spec: Spec,
    config: Config,
    machine: Machine | Gpu,
    sizes: Mapping[str, int],
    call: tuple[tuple[str, int], ...] | None = None,
) -> Arrangement:
    """Return the partition that a config names, arranged; call: see `arrange`.

    Raises
    ------
    ScheduleError
        If it names none, or borders that are gone where the sizes of the call have them.
    """
    at_call, answers = _settled(program, spec, call)
    what = str(config.get(SETTLED, ""))
    if what:
        if what != at_call.what:
            raise ScheduleError(f"{SETTLED} is {what}; legal at these sizes is '{at_call.what}'")
        program = at_call.program
    held = limits(_decided(program, spec), spec.sizes or ()) if call is not None else ()
    far = any(size.evaluate(dict(call or ())) >= FAR for size in held)
    program = rewritten(program, spec, machine, far=far)
    partition = _partition(program, config.get("partition"), chains(spec, machine))
    values = tuple(sorted(sizes.items()))
    offered: tuple[AnyForm, ...] = forms.CPU
    if isinstance(machine, Gpu):
        from tcdsl.codegen.choose import gpu_forms  # on use: a fourth of what lowers

        offered = gpu_forms.GPU
    found = arrange(program, spec, partition, machine, values, offered, call)
    if found.asked is not None:
        for size in held:
            found.asked.at_least(size, FAR)  # the answer is part of the regime
        for size, least, _ in answers:
            found.asked.at_least(size, least)
    return replace(found, settled=what) if what else found


def _partition(program: Program, name: Value | None, at: Sizes | None) -> Partition:
    """Return the partition of a name, the default by none; at: see `fuse.partitions`."""
    usual = default_partition(program, chains=at)
    if name is None or str(name) == usual.name:
        return usual
    by_name = {p.name: p for p in partitions(program, chains=at)}
    if str(name) not in by_name:
        raise ScheduleError(f"partition is {name}; legal are {', '.join(by_name)}")
    return by_name[str(name)]


def settled_at(program: Program, spec: Spec, sizes: Mapping[str, int]) -> Config:
    """Return what the choice for all sizes of the regime of these begins with.

    What a config does not say is gone stays: only by its name is a program what it is at a call.
    """
    what = _settled(program, spec, tuple(sorted(sizes.items())))[0].what
    return Config.of({SETTLED: what} if what else {})


@lru_cache(maxsize=64)  # a choice asks twice: for its config, and for what that arranges
def _settled(
    program: Program, spec: Spec, call: Sizes | None
) -> tuple[Settled, tuple[tuple[Size, int, bool], ...]]:
    """Return a program as a call has it where no size is known, and what was asked for that."""
    if call is None or spec.sizes is not None:
        return Settled(program), ()
    asked = Asked(dict(call))
    return settled(program, asked.at_least), asked.regime.answers


def chains(spec: Spec, machine: Machine | Gpu) -> Sizes | None:
    """Return the sizes that forms of chains and crossings may know; None: a GPU has neither."""
    return None if isinstance(machine, Gpu) else spec.sizes or ()


def _decided(program: Program, spec: Spec) -> Program:
    """Return a program without the conditions and checks that its known sizes answer."""
    if spec.sizes is None:
        return program
    return proved(decided(program, spec.sizes), spec.sizes)


def rewritten(
    program: Program, spec: Spec, machine: Machine | Gpu, *, far: bool = False
) -> Program:
    """Return a program as configs and groups number its statements: rewritten, in this order.

    - Conditions and checks that known sizes answer are gone (`decided`, `proved`).
    - CPU: triangular folds are folds of whole rows (`masked`), unless they are ``far``, too long
      for the int32 in which that asks.
    - Products are in pairs (`in_pairs`), and before the loop that they do not hang on
      (`distributed`).
    - CPU: weights of windows over halves go by float32 (`widened`), paddings of halves stay halves
      (`narrowed`); at exact sizes some products are in two steps (`parted`); loops along a row are
      scans (`along_rows`).

    All follow from the program and the specialisation, as do the statements that a config speaks
    of: the order of pairs from its sizes or those that stand for all, rows from its layouts.
    """
    sizes = {**dict(nominal_sizes(program)), **dict(spec.sizes or ())}
    known = _decided(program, spec)
    if not isinstance(machine, Gpu) and not far:
        known = masked(known, spec.sizes or ())
    at = tuple(sizes.items())
    split = distributed(in_pairs(known, at, spec.sizes or ()), at)
    if isinstance(machine, Gpu):
        return split
    split = narrowed(widened(split, sizes), sizes, partial(_has_words, machine))
    if spec.is_exact:
        split = parted(split, sizes, machine.vector_bytes)
    return _with_scans(split, spec.layouts)


def _has_words(machine: Machine, dtype: DType) -> bool:
    """Whether products of a half type are made of words."""
    from tcdsl.codegen.forms.contraction.words import words_of  # on use: most programs have none

    return bool(words_of(machine, dtype, dtype, FLOAT32))


@lru_cache(maxsize=64)
def _with_scans(program: Program, layouts: tuple[Layout, ...]) -> Program:
    homes = {program.buffer(n).home: x for n, x in zip(program.operands, layouts, strict=True)}

    def unit(name: str) -> int | None:
        buffer = program.buffer(name)
        layout = homes.get(buffer.home)
        return len(buffer.shape) - 1 if layout is None else layout.unit

    return along_rows(program, unit, MAX_LOOPS)
