"""What trials are held against: arguments, the reference's answer, tolerances."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from tcdsl.autotune.store.trial import UntunedError
from tcdsl.autotune.targets import tolerance
from tcdsl.autotune.targets.compare import compare
from tcdsl.autotune.targets.inputs import random_array, random_inputs
from tcdsl.autotune.worker.case import Array, Case, Expected, Operand, Role, positions_to_check
from tcdsl.codegen.machine.spec import Spec
from tcdsl.codegen.program.program import Program
from tcdsl.codegen.reference.evaluator import evaluate
from tcdsl.grammar.types.typed import CheckedDef, Loop

_SCALES = (1.0, 0.5, 0.25, 0.125, 0.0625)  # of random inputs, until results are meaningful
_STEP_POINTS = 30_000_000  # points up to which the reference is also run in the kernel's precision


class Of(Protocol):
    """What is asked of a problem: see `DefinitionProblem`."""

    @property
    def checked(self) -> CheckedDef:
        """The definition."""

    @property
    def spec(self) -> Spec:
        """Sizes, layouts and threads."""

    @property
    def strides(self) -> Sequence[tuple[int, ...] | None] | None:
        """Of operands, in elements."""

    @property
    def given(self) -> Mapping[str, Any] | None:
        """Arguments that trials use as they are."""

    @property
    def seed(self) -> int:
        """Of the random arguments."""

    @property
    def program(self) -> Program:
        """The SSA form."""

    @property
    def sizes(self) -> dict[str, int]:
        """The exact sizes."""

    @property
    def name(self) -> str:
        """Name for people."""


def case_of(of: Of) -> Case:
    """Return inputs of a problem and what has to come out.

    Raises
    ------
    UntunedError
        If the results depend on the last bits of all inputs that were tried.
    """
    operands = _operands(of)
    errors = tolerance.relative_errors(of.program, of.sizes)
    for scale in _SCALES if _is_iterated(of) else _SCALES[:1]:
        args, initial = _arguments(of, operands, scale)
        wanted = evaluate(of.checked, args, out=initial, float64=True)
        deviations = (
            _deviations(of, args, initial, wanted) if _is_iterated(of) else [0.0] * len(wanted)
        )
        if all(map(math.isfinite, deviations)):
            break
    else:
        raise UntunedError(
            f"{of.name}: results cannot be told right from wrong: for random inputs they"
            " change by more than a thousandth with the last bits of these\n"
            "  note: the default serves, untuned"
        )
    rng = np.random.default_rng(of.seed + 1)
    expected = []
    for values, error, deviation in zip(wanted, errors, deviations, strict=True):
        positions = positions_to_check(values.shape, rng)
        chosen = values.ravel() if positions is None else values.ravel()[positions]
        atol = max(tolerance.absolute(error, chosen), tolerance.DEVIATIONS * deviation)
        expected.append(Expected(chosen, positions, atol, error))
    if tolerance.is_discontinuous(of.program) and _points(of) <= _STEP_POINTS:
        rounded = evaluate(of.checked, args, out=initial)
        expected = [without_jumps(e, r) for e, r in zip(expected, rounded, strict=True)]
    return Case(
        operands,
        (*args, *initial),
        tuple(expected),
        tuple(of.sizes.values()),
        of.spec.threads,
    )


def _is_iterated(of: Of) -> bool:
    """Whether a result goes through the iterations of a loop, where errors may grow."""
    return any(isinstance(stmt, Loop) for stmt in of.checked.body)


def _arguments(
    of: Of, operands: Sequence[Operand], scale: float
) -> tuple[list[Array], list[Array | None]]:
    """Return random arguments, and random buffers of the returns that are updated."""
    drawn = random_inputs(of.checked, of.sizes, of.seed, of.given, scale=scale)
    args = [_repeated(a, o) for a, o in zip(drawn, operands, strict=False)]
    rng = np.random.default_rng(of.seed + 1)
    shapes = [tuple(s.evaluate(of.sizes) for s in t.shape) for t in of.checked.returns]
    initial = [
        random_array(t.dtype, shape, rng, scale=scale) if t.is_updated else None
        for t, shape in zip(of.checked.returns, shapes, strict=True)
    ]
    return args, initial


def _deviations(
    of: Of, args: Sequence[Array], initial: Sequence[Array | None], wanted: Sequence[Array]
) -> list[float]:
    """Return how far each output of the reference is off when it rounds as a kernel does.

    inf: so far that right and wrong cannot be told apart.
    Once it computes in the kernel's precision; then it computes in float64 on inputs that
    differ in their last bits.
    """
    others = [evaluate(of.checked, args, out=initial)]
    rng = np.random.default_rng(of.seed + 2)
    for _ in range(2):
        perturbed = [tolerance.perturbed(a, rng) for a in args]
        others.append(evaluate(of.checked, perturbed, out=initial, float64=True))
    may_jump = tolerance.is_discontinuous(of.program)
    return [
        max(tolerance.deviation(got, values, may_jump=may_jump) for got in of_one)
        for values, *of_one in zip(wanted, *others, strict=True)
    ]


def _points(of: Of) -> int:
    return sum(
        math.prod(max(0, r.extent.evaluate(of.sizes)) for r in s.ranges)
        for s in of.program.statements
    )


def _operands(of: Of) -> tuple[Operand, ...]:
    tensors = (*of.checked.params, *of.checked.returns)
    strides = of.strides or [None] * len(tensors)
    roles: list[Role] = ["in" if t.shape else "scalar" for t in of.checked.params]
    roles += ["update" if t.is_updated else "out" for t in of.checked.returns]
    return tuple(
        Operand(t.name, t.dtype.name, tuple(x.evaluate(of.sizes) for x in t.shape), s, role)
        for t, s, role in zip(tensors, strides, roles, strict=True)
    )


def without_jumps(expected: Expected, rounded: Array) -> Expected:
    """Leave out positions where the reference itself is off when it rounds as the kernel does.

    There a comparison or a conversion falls the other way: either answer is right.
    """
    _, excess = compare(rounded, expected)
    keep = excess <= 0
    if keep.all():
        return expected
    everywhere = np.arange(rounded.size) if expected.positions is None else expected.positions
    return replace(expected, values=expected.values.ravel()[keep], positions=everywhere[keep])


def _repeated(array: Array, operand: Operand) -> Array:
    """Return an array whose values do not change along dimensions of stride 0."""
    for d, stride in enumerate(operand.element_strides):
        if stride == 0 and operand.shape[d]:
            array = np.broadcast_to(array.take([0], axis=d), operand.shape)
    return array
