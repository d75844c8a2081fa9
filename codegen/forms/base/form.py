"""`Form`: one way to lower a group, as an object with a name that stores keep."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Generic, TypeVar

from tcdsl.codegen.forms.base.context import GroupContext, M
from tcdsl.codegen.machine.config import Knob, Value
from tcdsl.grammar.text.dataclass import dataclass

L = TypeVar("L", covariant=True)  # Lowered for a CPU, LoweredKernels for a GPU
KnobValues = Mapping[str, Value]


@dataclass(frozen=True, eq=False, slots=True)
class Form(Generic[M, L]):
    """One way to lower a group: whether it may, its knobs, its analytic choice, cost, and nest.

    Parameters
    ----------
    name
        In configs, stored ones too: it never changes, wherever the form's files lie.
    matches
        Whether the group has this form.
    knobs
        Legal values only, in their natural order.
    default
        The analytic choice: a value of every knob.
    cost_ns
        The predicted time of a call with the spec's threads (`machine/wall.py`), for ranking:
        monotone in truth, not exact.
    lower
        The nest of a choice.

        ScheduleError: if it has none.
    meaning
        What of a choice, of exact sizes, decides its nest: choices that share it, of other forms
        too, are one kernel, of which a search tries one. None: each choice is a nest of its own.
    has_tiles
        Sums of products in register tiles. A group keeps what stands around such a product.
    ends_group
        What follows its statement starts a new group: the form has no tiles that suit it.
    takes_any_points
        Also statements whose points meet, or change from turn to turn of a loop around them.
    takes_ragged
        Also statements with ranges that depend on indices or on data.
    takes_scans
        Only statements whose points run in the order of an index, and it takes any of these.
    leaves_open
        Where all sizes but `Spec.open` are exact it is as fast as where all are.
    leaves_kept_open
        So it is where none of these is an extent that is folded.
    """

    name: str
    matches: Callable[[GroupContext[M]], bool]
    knobs: Callable[[GroupContext[M]], tuple[Knob, ...]]
    default: Callable[[GroupContext[M]], KnobValues]
    cost_ns: Callable[[GroupContext[M], KnobValues], float]
    lower: Callable[[GroupContext[M], KnobValues], L]
    meaning: Callable[[GroupContext[M], KnobValues], Hashable] | None = None
    has_tiles: bool = False
    ends_group: bool = False
    takes_any_points: bool = False
    takes_ragged: bool = False
    takes_scans: bool = False
    leaves_open: bool = False
    leaves_kept_open: bool = False
