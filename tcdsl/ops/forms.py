"""What an op does with a call whose form is new: types, shapes, an executable, what is recorded.

The first call of a form goes through here; what it finds is installed, and later calls are the
core's alone. Gradients are ops of the same kind, of texts that the compiler derives, made when the
first recorded call of a form asks for them.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from sys import intern
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from tcdsl.calls import record
from tcdsl.calls.bindings.session import Session
from tcdsl.calls.bindings.variant import Variant
from tcdsl.calls.call import KernelCall
from tcdsl.calls.dispatch import Dispatch
from tcdsl.calls.kinds import Kinds
from tcdsl.calls.operands.collapse import Strides
from tcdsl.calls.process.bounded import thinned
from tcdsl.calls.process.locks import Lock
from tcdsl.calls.to_come import Begun
from tcdsl.codegen.runtime import Entry, Launcher
from tcdsl.core import (
    Function,
    Op,
    Recipe,
    Tensor,
    check_write,
    set_fn,
)
from tcdsl.core.dtypes import DType
from tcdsl.grammar.text import nodes
from tcdsl.grammar.text.cached import cached_property
from tcdsl.grammar.text.errors import AllocationError, ShapeError
from tcdsl.ops.arguments import (
    as_pytorchs,
    by_name,
    is_operand,
    name_private,
    no_tensor,
    operand,
    with_numpys_names,
)
from tcdsl.ops.beforehand import form_of, way_back_begun
from tcdsl.ops.faults import as_runtime_error, outside
from tcdsl.ops.meaning import Meaning
from tcdsl.ops.node_names import name_by_form, node_name
from tcdsl.ops.recipes import Recipes
from tcdsl.ops.rules import broadcast
from tcdsl.ops.strides import Laid, is_plain, laid
from tcdsl.ops.typed import TypedText
from tcdsl.ops.writing import (
    any_recorded,
    check_target,
    check_unrecorded,
    kept_of,
    laid_apart,
    lie_alike,
    may_overlap,
    shares,
    unrecorded,
    write_result,
)

if TYPE_CHECKING:
    from tcdsl.ops.device_calls import TensorCalls


_MAX_KINDS = 256
_NUMBER = Laid((), ())
_every: weakref.WeakSet[Forms] = weakref.WeakSet()


def forget_forms() -> None:
    """Let all ops ask their rules again: what those go by has changed."""
    for forms in [*_every]:
        forms.launcher.clear()


class Forms:
    """The forms of calls of one op: the way of those that are new.

    `slow` takes what the core does not know and makes operands of it, `_call` asks the rules of the
    op (shapes, the type to compute in, casts), `_run` finds an executable, installs it for the form
    and runs it. `plan` tells what recorded calls of the form keep.

    Parameters
    ----------
    name : str
        Of the op, for messages.
    session, definition : Session, Def
        The text.
    meaning : Meaning
    writes : bool
        Whether results are written into the first operand.
    launcher : Launcher, optional
        Of an op that this one serves for some types: what is installed here is found there.
    node : str, optional
        What recorded calls are called, where that is not as `node_names` has it.
    """

    write_view: ClassVar[
        Callable[[Tensor, Tensor], Tensor]
    ]  # of `view_writes.py`, which stands on this
    without_hooks: ClassVar[Callable[[Tensor], Tensor]]  # and of there

    def __init__(
        self,
        name: str,
        session: Session,
        definition: nodes.Def,
        meaning: Meaning,
        *,
        writes: bool = False,
        launcher: Launcher | None = None,
        node: str | None = None,
    ) -> None:
        self.name, self.session, self.definition = name, session, definition
        self.meaning, self.writes = meaning, writes
        self.text = TypedText(name, session, definition, meaning)
        self.params = self.text.params
        self.returns = tuple(r.name for r in definition.returns)
        self.dispatch = Dispatch(session, definition, lambda variant: None)
        self._bound: dict[tuple[tuple[str, int], ...], Op] = {}
        self._chosen: dict[tuple[tuple[str, int], ...], Op] = {}  # the same, as callers write them
        self._others: dict[str, Op] = {}  # of definitions for other types
        self.lock = Lock()
        self.keeps_extra = True
        self.begun = Begun()
        self.recipes = Recipes(self, Forms)
        self._kinds = Kinds(session)
        self._inplace: dict[object, tuple[tuple[int, int], ...]] = {}
        self._overlaps = False  # whether a target was given that an operand lies in, too
        self._elsewhere: set[int] = set()  # operands that may not lie as it does: read elsewhere
        self._fresh: Forms | None = None  # the same op, writing into none of its operands
        self.calls_on_gpus: TensorCalls | None = None  # once there were some
        several = len(self.returns) > 1
        self.launcher = launcher or Launcher(
            name,
            tuple(map(intern, self.params)),
            self.returns,
            _never,
            self._raise_fault,
            self.dispatch.result_type if several else None,
        )
        self.op = Op(
            node or node_name(name),
            self.launcher,
            self.slow,
            None if meaning.vjp is None else self.plan,
            len(self.params),
            len(self.returns),
            int(writes),
        )
        self.op.__dict__.update(__name__=name, forms=self, with_generics=self.with_generics)
        if meaning.slow is not None:
            name_private(meaning.slow, name)
            self.op.named = with_numpys_names(meaning.slow)
            self._function = Function(meaning.slow)  # which refuses what is no tensor
        _every.add(self)
        if meaning.is_tunable:
            record.exists(self)

    # ---- calls

    def slow(self, *args: Any, **kwargs: Any) -> Any:
        """Make a call that the core does not know."""
        if kwargs and (op := self._chosen.get(tuple(kwargs.items()))) is not None:
            return op(*args)
        meaning, n, given = self.meaning, len(self.params), args
        if not kwargs and len(args) == n:
            if meaning.spread is not None and (whole := meaning.spread(args)) is not None:
                return self.op(*whole)
            if self._overlaps and (apart := self._apart(args)) is not None:
                return self.op(*apart)
        out = kwargs.pop("out", None) if meaning.slow is None and kwargs else None
        if kwargs or len(args) != n:
            if meaning.slow is not None:
                return self._function(*args, **as_pytorchs(kwargs))
            generics = {g.name for g in self.definition.generics}
            if chosen := {k: kwargs.pop(k) for k in [*kwargs] if k in generics}:
                op = self.with_generics(**chosen)
                if not kwargs and out is None and {*map(type, chosen.values())} == {int}:
                    self._chosen[tuple(chosen.items())] = op
                return op(*args, **kwargs, **_given(out))
            args = by_name(self.name, self.definition, args, kwargs)
        elif meaning.slow is not None and not all(map(is_operand, args)):
            return self._function(*args)
        values = tuple(
            operand(self.name, p, i, a)
            for i, (p, a) in enumerate(zip(self.params, args, strict=True))
        )
        if out is not None and not self.writes:
            return self._into(values, out if isinstance(out, tuple) else (out,))
        if kwargs or any(a is not v for a, v in zip(values, given, strict=False)):
            return self.op(*values)  # by position it may be known
        return self._call(values)

    def with_generics(self, **generics: int) -> Op:
        """Return this op with some of its text's integer generics bound; the same for the same."""
        key = tuple(sorted(generics.items()))
        found = self._bound.get(key)
        if found is None:
            meaning = replace(self.meaning, generics={**self.meaning.generics, **generics})
            writes, node = self.writes, self.op.name
            made = Forms(
                self.name, self.session, self.definition, meaning, writes=writes, node=node
            )
            with self.lock:
                found = self._bound.setdefault(key, made.op)
        return found

    def _call(self, values: tuple[Any, ...]) -> Any:
        if not any(isinstance(v, Tensor) for v in values):
            raise no_tensor(self.name, self.params[0], 0, values[0])
        if self.meaning.shape is not None:
            self.meaning.shape(values)
        dtype = self.text.computed(values)
        other = self.meaning.bools if not dtype.category else self.meaning.integers
        if other is not None and not dtype.is_floating_point:
            return self._served_by(other)(*values)
        if self.writes:
            target = values[0]
            if isinstance(target, Tensor):
                check_write(target, int(any_recorded(values)))
            check_target(self.name, values, dtype, self.meaning.shape is broadcast)
            dtype = target.dtype
            if target._base is not None and any_recorded(values):
                return self._write_view(values)
        cast = self.text.all_cast(values, dtype)
        if cast is not None:
            return self.op(*cast)
        if (fitting := self.text.wrapped(values, dtype)) is not None:
            return self.op(*fitting)
        return self._run(values, dtype, (values[0],) if self.writes else None)

    def _run(self, values: tuple[Any, ...], dtype: DType, outs: tuple[Any, ...] | None) -> Any:
        """Run a call of a form that is not known, and install it."""
        if any(isinstance(v, Tensor) and v._device for v in (*values, *(outs or ()))):
            from tcdsl.ops import device_calls  # on use: most programs have no GPU

            return device_calls.run(self, values, dtype, outs)
        if outs is not None:
            inplace = self._inplace_of(values, dtype)
            if may_overlap(outs, values, inplace):
                if self.writes and (0, 0) in inplace:
                    self._overlaps = True
                    self._elsewhere |= {
                        p
                        for p, v in enumerate(values)
                        if (0, p) not in inplace and lie_alike(v, outs[0])
                    }
                    if self._apart(values) is not None:
                        return self.op(*values)
                values = tuple(
                    v.clone() if isinstance(v, Tensor) and shares(v, outs) else v for v in values
                )
        arrays = self.text.arrays(values, dtype)
        variant, sizes = self.text.bind(arrays, dtype)
        operands = [a if isinstance(v, Tensor) else v for v, a in zip(values, arrays, strict=True)]
        try:
            call = KernelCall.of(variant, sizes, operands, arrays)
        except AllocationError as error:
            raise as_runtime_error(error) from None
        if outs is not None:
            call = replace(call, outs=self._written(call, outs))
        else:
            call = replace(call, laid=self.laid(call, values))
        if self.meaning.is_tunable:
            record.noted(self, call)
        if self.begun:
            self.begun.wait(self.dispatch, form_of(values))
        with way_back_begun(self, call, values):
            compiled = self.dispatch.executable_for(call)
        entry = call.entry(compiled)
        installed = tuple(
            v if isinstance(v, Tensor) or not t.shape else a
            for v, a, t in zip(values, arrays, variant.signature.params, strict=True)
        )
        rule = self._kinds.rule(call, compiled)
        self.launcher.install(entry, installed, outs, None, rule)
        try:
            return self.op.run(entry, values, outs)
        except MemoryError:
            raise as_runtime_error(call.no_memory()) from None

    def laid(self, call: KernelCall, values: Sequence[Any]) -> tuple[Strides | None, ...] | None:
        """Return the strides of fresh results, None where all are in C order."""
        found = call.variant.signature.pointwise
        order = self.meaning.order
        if found is None and order is None:
            return None
        tensors = [laid(v) if isinstance(v, Tensor) else _NUMBER for v in values]
        if all(map(is_plain, tensors)):
            return None
        if found is None:
            assert order is not None
            return tuple([order(shape, tensors) for _, shape in call.return_types])
        (_, shape), *more = call.return_types
        operands = self.text.laid(values, found.places, shape)
        strides = self.meaning.layout(shape, operands)
        return None if strides is None else (strides,) * (1 + len(more))

    def _apart(self, args: tuple[Any, ...]) -> list[Any] | None:
        """Return operands with copies of what lies in the target and is read elsewhere there."""
        target, apart = args[0], list(args)
        if not isinstance(target, Tensor):
            return None
        for p, v in enumerate(args[1:], 1):
            if not isinstance(v, Tensor) or v._storage is not target._storage:
                continue
            if p in self._elsewhere or not lie_alike(v, target):
                apart[p] = laid_apart(v)
        return None if all(map(operator.is_, args, apart)) else apart

    def _inplace_of(self, values: tuple[Any, ...], dtype: DType) -> Collection[tuple[int, int]]:
        """Return which outputs may lie over which operands, by their numbers."""
        form = tuple((v.dtype, v.ndim) if isinstance(v, Tensor) else type(v) for v in values)
        found = self._inplace.get(form)
        if found is None:
            found = self.text.variant(values, dtype).signature.inplace
            self._inplace = thinned(self._inplace, _MAX_KINDS)
            self._inplace[form] = found
        return found

    def write_recorded(self, values: tuple[Any, ...]) -> Any:
        """Write into a tensor by a call that is recorded: it becomes a function of its old self."""
        result = self._kept_apart(values)
        target = values[0]
        with unrecorded():
            target.detach().copy_(result)
        set_fn(target, result.grad_fn, result.output_nr)
        return target

    def _served_by(self, name: str) -> Op:
        """Return the op of the definition that serves where the type is no float."""
        found = self._others.get(name)
        if found is None:
            definition = self.session.definition(name)
            meaning = replace(self.meaning, integers=None, bools=None, vjp=None, slow=None)
            shared = self.launcher  # so that the core finds the form: it asks for no gradient
            made = Forms(
                self.name, self.session, definition, meaning, writes=self.writes, launcher=shared
            )
            assert (made.params, made.returns) == (self.params, self.returns)
            with self.lock:
                found = self._others.setdefault(name, made.op)
        return found

    def _write_view(self, values: tuple[Any, ...]) -> Any:
        """Write a view by a call that is recorded: its base is a function of the result now."""
        read = (Forms.without_hooks(values[0]), *values[1:])
        return Forms.write_view(values[0], self._kept_apart(read))

    def _kept_apart(self, values: tuple[Any, ...]) -> Any:
        """Return a fresh result, recorded, of which nothing that is kept will be written over."""
        with self.lock:
            self._fresh = self._fresh or Forms(
                self.name, self.session, self.definition, replace(self.meaning, slow=None)
            )
        result = self._fresh.op(*values)
        if any(isinstance(k, Tensor) and shares(k, values[:1]) for k in kept_of(result)):
            apart = (
                v.clone() if isinstance(v, Tensor) and shares(v, values[:1]) else v for v in values
            )
            result = self._fresh.op(*apart)  # the gradient reads what is written over
        return result

    def _written(self, call: KernelCall, outs: Sequence[Tensor]) -> tuple[Any, ...]:
        """Return the outputs as arrays that may be written."""
        try:
            return call.check_outputs([o._array() for o in outs])
        except ShapeError as refusal:
            if "read-only" in str(refusal):
                problem = f"{self.name}: the memory of the tensor to write to is read-only"
            else:
                problem = (
                    "unsupported operation: more than one element of the written-to tensor refers "
                    "to a single memory location. Please clone() the tensor before performing the "
                    "operation."
                )
            raise RuntimeError(problem) from None

    def _into(self, values: tuple[Any, ...], outs: tuple[Any, ...]) -> Any:
        """Compute into tensors that the caller gives, of another type or shape too."""
        result = self.op(*values)
        results = result if len(outs) > 1 else (result,)
        check_unrecorded(self.name, (*results, *outs))
        if len(outs) == 1 and outs[0].dtype is result.dtype and outs[0].shape == result.shape:
            self._install_into(values, outs)
        for target, made in zip(outs, results, strict=True):
            write_result(target, made)
        return outs[0] if len(outs) == 1 else self.result(outs)

    def _install_into(self, values: tuple[Any, ...], outs: tuple[Any, ...]) -> None:
        """Let the core write such results into such a tensor from now on."""
        if any(isinstance(v, Tensor) and (v._device or shares(v, outs)) for v in values):
            return
        dtype = self.text.computed(values)
        if self.text.all_cast(values, dtype) or self.text.wrapped(values, dtype):
            return
        if self.meaning.spread is not None and self.meaning.spread(values) is not None:
            return
        other = self.meaning.bools if not dtype.category else self.meaning.integers
        is_own = other is None or dtype.is_floating_point
        forms = self if is_own else self._served_by(str(other)).forms
        forms._run(values, dtype, outs)

    # ---- from operands to a definition bound to types

    def result(self, values: tuple[Tensor, ...]) -> Any:
        """Return several results as the named tuple that callers get."""
        return self.dispatch.result(values)

    def _raise_fault(self, at: int, dim: int, value: int, extent: int) -> NoReturn:
        names = (*self.params, *self.returns)
        raise outside(self.name, names, at, dim, value, extent)

    # ---- the way back

    def plan(self, entry: Entry, needs: int, inputs: tuple[Any, ...]) -> Recipe:
        """Return what a recorded call keeps by which these gradients are needed."""
        dtype = inputs[0].dtype if self.writes else self.text.computed(inputs)
        recipe = self.recipes.of(self.text.variant(inputs, dtype), needs)
        name = name_by_form(self.definition.name, inputs)
        return recipe if name is None else recipe.named(name)

    @cached_property
    def plain_op(self) -> Op:
        """The op whose recorded calls keep operands and results only, no sums inside of the text.

        Its gradients compute such sums again.
        """
        meaning = replace(self.meaning, slow=None)
        made = Forms(self.name, self.session, self.definition, meaning)
        made.keeps_extra = False
        return made.op

    def clear(self) -> None:
        """Forget the forms of calls, so that the next of each is seen."""
        self.launcher.clear()

    def _forget_choices(self, variant: Variant) -> None:
        """Let the next calls find what was tuned."""
        variant.forget_choices()
        self.launcher.clear()


def _given(out: Any) -> dict[str, Any]:
    return {} if out is None else {"out": out}


def _never(*args: Any, **kwargs: Any) -> NoReturn:
    raise AssertionError("the launcher of an op is called by the op")
