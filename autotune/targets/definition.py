"""A checked definition at exact sizes as a tuning problem: what all targets share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tcdsl.autotune.store.trial import UntunedError
from tcdsl.autotune.targets import tolerance
from tcdsl.autotune.targets.compare import compare
from tcdsl.autotune.targets.inputs import random_array, random_inputs
from tcdsl.autotune.worker.case import Array, Case, Expected, Operand, Role, positions_to_check
from tcdsl.codegen.machine.spec import Spec
from tcdsl.codegen.program.program import Program
from tcdsl.codegen.program.ssa import program_of
from tcdsl.codegen.reference.evaluator import evaluate
from tcdsl.grammar.text.cached import cached_property
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.types.typed import CheckedDef, Loop

_SCALES = (1.0, 0.5, 0.25, 0.125, 0.0625)  # of random inputs, until results are meaningful
_STEP_POINTS = 30_000_000  # points up to which the reference is also run in the kernel's precision

Strides = Sequence[tuple[int, ...] | None]


@dataclass(frozen=True)
class DefinitionProblem:
    """One kernel at one set of sizes, dtypes and layouts, on a target that a subclass knows.

    Parameters
    ----------
    checked : CheckedDef
    spec : Spec
        With exact sizes.
    strides : sequence, optional
        Per operand, parameters then returns, in elements; None, one or all, is C order. They have
        to be of the layout classes of spec.
    given : mapping, optional
        Arguments that trials use as they are: rank-0 parameters such as an epsilon.
    seed : int
        Of the random arguments.
    """

    checked: CheckedDef
    spec: Spec
    strides: Strides | None = None
    given: Mapping[str, Any] | None = None
    seed: int = 0

    @cached_property
    def program(self) -> Program:
        """The SSA form."""
        return program_of(self.checked)

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The exact sizes."""
        assert self.spec.sizes is not None
        return dict(self.spec.sizes)

    @property
    def name(self) -> str:
        """Name for people, with the sizes."""
        return " ".join([self.checked.name, *(f"{n}={v}" for n, v in self.sizes.items())])

    @property
    def text(self) -> str:
        """TC text."""
        return self.program.text

    def case(self) -> Case:
        """Return inputs and what has to come out.

        Raises
        ------
        UntunedError
            If the results depend on the last bits of all inputs that were tried.
        """
        operands = self._operands()
        errors = tolerance.relative_errors(self.program, self.sizes)
        for scale in _SCALES if self._is_iterated else _SCALES[:1]:
            args, initial = self._arguments(operands, scale)
            wanted = evaluate(self.checked, args, out=initial, float64=True)
            deviations = (
                self._deviations(args, initial, wanted)
                if self._is_iterated
                else [0.0] * len(wanted)
            )
            if all(map(math.isfinite, deviations)):
                break
        else:
            raise UntunedError(
                f"{self.name}: results cannot be told right from wrong: for random inputs they"
                " change by more than a thousandth with the last bits of these\n"
                "  note: the default serves, untuned"
            )
        rng = np.random.default_rng(self.seed + 1)
        expected = []
        for values, error, deviation in zip(wanted, errors, deviations, strict=True):
            positions = positions_to_check(values.shape, rng)
            chosen = values.ravel() if positions is None else values.ravel()[positions]
            atol = max(tolerance.absolute(error, chosen), tolerance.DEVIATIONS * deviation)
            expected.append(Expected(chosen, positions, atol, error))
        if tolerance.is_discontinuous(self.program) and self._points() <= _STEP_POINTS:
            rounded = evaluate(self.checked, args, out=initial)
            expected = [without_jumps(e, r) for e, r in zip(expected, rounded, strict=True)]
        return Case(
            operands,
            (*args, *initial),
            tuple(expected),
            tuple(self.sizes.values()),
            self.spec.threads,
        )

    @property
    def _is_iterated(self) -> bool:
        """Whether a result goes through the iterations of a loop, where errors may grow."""
        return any(isinstance(stmt, Loop) for stmt in self.checked.body)

    def _arguments(
        self, operands: Sequence[Operand], scale: float
    ) -> tuple[list[Array], list[Array | None]]:
        """Return random arguments, and random buffers of the returns that are updated."""
        drawn = random_inputs(self.checked, self.sizes, self.seed, self.given, scale=scale)
        args = [_repeated(a, o) for a, o in zip(drawn, operands, strict=False)]
        rng = np.random.default_rng(self.seed + 1)
        shapes = [tuple(s.evaluate(self.sizes) for s in t.shape) for t in self.checked.returns]
        initial = [
            random_array(t.dtype, shape, rng, scale=scale) if t.is_updated else None
            for t, shape in zip(self.checked.returns, shapes, strict=True)
        ]
        return args, initial

    def _deviations(
        self, args: Sequence[Array], initial: Sequence[Array | None], wanted: Sequence[Array]
    ) -> list[float]:
        """Return how far each output of the reference is off when it rounds as a kernel does.

        inf: so far that right and wrong cannot be told apart.
        Once it computes in the kernel's precision; then it computes in float64 on inputs that
        differ in their last bits.
        """
        others = [evaluate(self.checked, args, out=initial)]
        rng = np.random.default_rng(self.seed + 2)
        for _ in range(2):
            perturbed = [tolerance.perturbed(a, rng) for a in args]
            others.append(evaluate(self.checked, perturbed, out=initial, float64=True))
        may_jump = tolerance.is_discontinuous(self.program)
        return [
            max(tolerance.deviation(got, values, may_jump=may_jump) for got in of_one)
            for values, *of_one in zip(wanted, *others, strict=True)
        ]

    def _points(self) -> int:
        return sum(
            math.prod(max(0, r.extent.evaluate(self.sizes)) for r in s.ranges)
            for s in self.program.statements
        )

    def _operands(self) -> tuple[Operand, ...]:
        tensors = (*self.checked.params, *self.checked.returns)
        strides = self.strides or [None] * len(tensors)
        roles: list[Role] = ["in" if t.shape else "scalar" for t in self.checked.params]
        roles += ["update" if t.is_updated else "out" for t in self.checked.returns]
        return tuple(
            Operand(t.name, t.dtype.name, tuple(x.evaluate(self.sizes) for x in t.shape), s, role)
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
