"""The user's object: a definition that is called with arrays."""

from __future__ import annotations

import threading
from collections import namedtuple
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from tcdsl.arguments import Array, as_array, contiguous, is_addressable, layout_of, like
from tcdsl.codegen.config import Config
from tcdsl.codegen.reference_math import identity, numpy_dtype
from tcdsl.codegen.runtime import ArrayForm, Entry, Launcher
from tcdsl.codegen.spec import Spec
from tcdsl.grammar import nodes, typed
from tcdsl.grammar.errors import BoundsError, ShapeError, TCTypeError
from tcdsl.session import Session, Tune
from tcdsl.sizes import check_sizes
from tcdsl.variant import Compiled, Variant, spec_for

if TYPE_CHECKING:
    from tcdsl.tuning import Online

_MODEL_SIZE = 256  # what the analytic schedule of a size-generic text assumes
_MAX_ENTRIES = 4096  # forms of operands whose plans are kept, beyond the launcher's latest


@dataclass(frozen=True, slots=True)
class _Bound:
    """A definition with what the arguments of one call decide."""

    variant: Variant
    sizes: Mapping[str, int]
    shapes: tuple[tuple[int, ...], ...]  # of the returns
    dtypes: tuple[np.dtype[Any], ...]


class Kernel(Launcher):
    """A definition as a callable on arrays.

    ``k(a, b)`` returns a fresh array, or a named tuple of arrays where the definition has several
    returns; ``k(a, b, out=c)`` (or ``outputs=``) writes into c. Arguments are NumPy arrays,
    anything with ``__dlpack__``, and numbers for parameters of rank 0. Integer generics come by
    keyword. Nothing is copied for its strides. Calls of forms seen before do not enter this class:
    the launcher under it runs them.

    Attributes
    ----------
    name : str
        Of the definition.
    definition : nodes.Def
        Its syntax tree.
    """

    def __init__(self, session: Session, definition: nodes.Def) -> None:
        self.session = session
        self.definition = definition
        self._entries: dict[Any, Entry] = {}
        self._online: dict[Spec, Online] = {}
        self._tuned_here: set[Spec] = set()
        self._lock = threading.RLock()
        names = tuple(p.name for p in definition.returns)
        params = definition.params
        self._result: Any = namedtuple(definition.name, names, rename=True)  # type: ignore[misc]
        super().__init__(
            definition.name,
            tuple(p.name for p in params),
            names,
            self._call_slowly,
            self._raise_fault,
            self._result if len(names) > 1 else None,
        )

    def __repr__(self) -> str:
        return f"<tcdsl kernel {self.name}({', '.join(self.params)}) -> {', '.join(self.returns)}>"

    def variant(self, **generics: Any) -> Variant:
        """Return the definition bound to generics: what can be shown, emitted and tuned."""
        return self.session.variant(self.definition, generics)

    def text(
        self, sizes: Mapping[str, int] | None = None, *, tuned: bool = False, **generics: Any
    ) -> str:
        """Return the C text of the kernel for operands in C order.

        Parameters
        ----------
        sizes : mapping of str to int, optional
            Baked in; without them the text is the one that takes any size.
        tuned : bool, default False
            Use the tuned config of these sizes, if there is one.
        """
        variant = self.variant(**generics)
        if sizes is None:
            model = dict.fromkeys(variant.checked.sizes, _MODEL_SIZE)
            spec = replace(spec_for(variant, model), sizes=None)
        else:
            model = check_sizes(variant.checked, sizes)
            spec = spec_for(variant, model)
        found = self.session.tuned(variant)(spec) if tuned else None
        return variant.text(spec, found or variant.default_config(spec, model), model)

    # ---- tuning

    @property
    def database(self) -> Path:
        """The SQLite file of tuned configs that calls look into."""
        return self.session.database

    def with_tune(self, tune: Tune) -> Kernel:
        """Return this kernel with another setting of `tune`, and executables of its own."""
        session = Session(self.session.program, replace(self.session.settings, tune=tune))
        return Kernel(session, self.definition)

    def tuned_config(self, *args: Any, **generics: Any) -> Config | None:
        """Return the config tuned for a call with these arguments, or None."""
        from tcdsl.tuning import operands_of_arrays

        arrays = [as_array(v, n) for v, n in zip(args, self.params, strict=True)]
        bound = self._bind(arrays, generics)
        problem = operands_of_arrays(bound.variant.checked, bound.sizes, args).problem(
            bound.variant
        )
        return self.session.tuned(bound.variant)(problem.spec)

    def autotune(
        self,
        *args: Any,
        sizes: Sequence[Mapping[str, int]] | None = None,
        cache: str | PathLike[str] | None = None,
        seconds: float | None = None,
        trials: int | None = None,
        seed: int = 0,
        target: str = "cpu",
        quiet: bool = False,
        **named: Any,
    ) -> Any:
        """Search the fastest config, keep it, and use it in later calls and processes.

        ``k.autotune(a, b)`` tunes for these arrays, their strides too; ``k.autotune((100, 128),
        (128, 10))`` for these shapes, ``k.autotune(B=range(1, 65), M=128)`` for every combination
        of these sizes, all in C order.

        Parameters
        ----------
        *args : arrays and numbers, or shapes
            One per parameter.
        sizes : sequence of mappings, optional
            Several sets of sizes, in place of sizes by keyword.
        cache : path, optional
            SQLite file; by default the one that calls look into.
        seconds : float, optional
            Budget for all sizes together. Without seconds and trials a search ends when it no
            longer gains.
        trials : int, optional
            Budget of new trials for each size.
        seed : int
            The same seed takes the same path.
        target : "cpu"
        quiet : bool
            Show no progress.
        **named
            Sizes (an int, a range or a list each) and generics.

        Returns
        -------
        Config, or dict of Config
            For several sets of sizes a dict, by ``(("B", 1), ("M", 128))``. Shorter where the
            user stopped the search with Ctrl-C: what was found so far is kept.

        Raises
        ------
        TCError
            If the sizes do not fit, or the default itself does not run right.
        """
        from tcdsl import tuning
        from tcdsl.autotune.report import reporter
        from tcdsl.autotune.tuner import tune

        if target != "cpu":
            raise TCTypeError(f"target is '{target}'; expected 'cpu'")
        known = {g.name for g in self.definition.generics}
        generics = {k: named.pop(k) for k in [*named] if k in known}
        variant, wanted = tuning.requested(self, args, sizes, named, generics)
        share = None if seconds is None else seconds / len(wanted)
        database = self.database if cache is None else Path(cache)
        results = tune(
            [w.problem(variant) for w in wanted],
            cache=database,
            seconds=share,
            trials=trials,
            seed=seed,
            report=reporter(quiet),
        )
        self._forget_choices(variant)
        configs = {tuple(w.sizes.items()): r.config for w, r in zip(wanted, results, strict=False)}
        is_single = sizes is None and len(wanted) == 1
        return next(iter(configs.values()), None) if is_single else configs

    def _forget_choices(self, variant: Variant) -> None:
        """Let the next calls find what was tuned."""
        with self._lock:
            variant.forget_choices()
            self._entries.clear()
            self.clear()

    # ---- one call

    def _call_slowly(self, *args: Any, **kwargs: Any) -> Any:
        values, given, generics = self._sorted(args, kwargs)
        arrays = [as_array(v, n) for v, n in zip(values, self.params, strict=True)]
        bound = self._bind(arrays, generics)
        operands = tuple(
            (a if is_addressable(a) else a.copy()) if t.shape else v
            for v, a, t in zip(values, arrays, bound.variant.checked.params, strict=True)
        )
        if given is None:
            result = self._run(bound, operands, _initial(bound))
            example = next((v for v, a in zip(values, arrays, strict=True) if a.ndim), 0)
            convert = like(example)
            if len(self.returns) == 1:
                return convert(result)
            return result._make(map(convert, result))
        self._run_into(bound, operands, self._outputs(bound, given))
        return given[0] if len(self.returns) == 1 else self._result._make(given)

    def _sorted(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[list[Any], tuple[Any, ...] | None, dict[str, Any]]:
        """Tell parameters, outputs and generics apart.

        Raises
        ------
        TCTypeError
            If an argument is missing, too many, given twice or unknown.
        """
        kwargs = dict(kwargs)
        outs = [kwargs.pop(word) for word in ("out", "outputs") if kwargs.get(word) is not None]
        generics = {
            g.name: kwargs.pop(g.name) for g in self.definition.generics if g.name in kwargs
        }
        signature = f"{self.name}({', '.join(self.params)})"
        if len(outs) > 1:
            raise TCTypeError(f"{signature}: 'out' and 'outputs' mean the same, give one")
        if len(args) > len(self.params):
            raise TCTypeError(
                f"{signature} takes {len(self.params)} arguments, got {len(args)}\n"
                "  outputs are given as out=..."
            )
        values = dict(zip(self.params, args, strict=False))
        for name, value in kwargs.items():
            if name in values:
                raise TCTypeError(f"{signature}: '{name}' is given twice")
            if name not in self.params:
                raise TCTypeError(f"{signature} has no parameter '{name}'")
            values[name] = value
        missing = [p for p in self.params if p not in values]
        if missing:
            listed = ", ".join(f"'{m}'" for m in missing)
            raise TCTypeError(f"{signature} misses {listed}: {len(values)} arguments were given")
        given: tuple[Any, ...] | None = None
        if outs:
            given = (outs[0],) if len(self.returns) == 1 else tuple(outs[0])
            if len(self.returns) == 1 and isinstance(outs[0], tuple | list):
                given = tuple(outs[0])
            if len(given) != len(self.returns):
                raise TCTypeError(
                    f"{signature} has {len(self.returns)} returns, got {len(given)} outputs"
                )
        return [values[p] for p in self.params], given, generics

    def _bind(self, arrays: Sequence[Array], generics: Mapping[str, Any]) -> _Bound:
        variant, sizes = self.session.bind(self.definition, arrays, generics)
        returns = variant.checked.returns
        return _Bound(
            variant,
            sizes,
            tuple(tuple(s.evaluate(sizes) for s in t.shape) for t in returns),
            tuple(numpy_dtype(t.dtype) for t in returns),
        )

    def _outputs(self, bound: _Bound, given: Sequence[Any]) -> tuple[Array, ...]:
        """Return the caller's buffers as arrays that may be written.

        Raises
        ------
        TCTypeError, ShapeError
            If one is not an array of the right type and shape, or cannot be written.
        """
        outs = []
        returns = bound.variant.checked.returns
        for value, tensor, shape, dtype in zip(
            given, returns, bound.shapes, bound.dtypes, strict=True
        ):
            array = as_array(value, tensor.name)
            if not array.flags.writeable and not isinstance(value, np.ndarray):
                array = np.asarray(value)  # what dlpack gave read-only may be writable as a buffer
            if array.dtype != dtype:
                raise TCTypeError(
                    f"{self.name}: expected out '{tensor.name}' of type {tensor.dtype}, "
                    f"got {array.dtype}"
                )
            if array.shape != shape:
                symbols = ", ".join(map(str, tensor.shape))
                raise ShapeError(
                    f"{self.name}: expected out '{tensor.name}' of shape ({symbols}) = {shape}, "
                    f"got {array.shape}"
                )
            if not array.flags.writeable:
                raise ShapeError(f"{self.name}: out '{tensor.name}' is read-only")
            if any(s == 0 and n > 1 for s, n in zip(array.strides, array.shape, strict=True)):
                raise ShapeError(
                    f"{self.name}: out '{tensor.name}' has stride 0: "
                    "several elements are one place in memory"
                )
            outs.append(array)
        for i, a in enumerate(outs):
            for b in outs[i + 1 :]:
                if np.may_share_memory(a, b):
                    raise ShapeError(f"{self.name}: two outputs overlap in memory")
        return tuple(outs)

    def _run_into(self, bound: _Bound, operands: Sequence[Any], outs: Sequence[Array]) -> None:
        """Run into the caller's buffers; one that overlaps an input gets its values last."""
        targets = []
        for r, out in enumerate(outs):
            free = is_addressable(out) and not any(
                isinstance(x, np.ndarray)
                and np.may_share_memory(out, x)
                and not ((r, p) in bound.variant.inplace and _is_same_view(out, x))
                for p, x in enumerate(operands)
            )
            targets.append(out if free else out.copy(order="C"))
        self._run(bound, operands, tuple(targets))
        for out, target in zip(outs, targets, strict=True):
            if target is not out:
                out[...] = target

    def _run(self, bound: _Bound, operands: Sequence[Any], outs: tuple[Array, ...] | None) -> Any:
        args = tuple(operands)
        spec = _spec(bound, args, outs)
        candidate = None
        if self.session.settings.tune in ("first-call", "online"):
            candidate = self._tune_at_call(bound, spec, args, outs)
        if candidate is not None:
            compiled = bound.variant.compile(spec, candidate, bound.sizes)
            return self.run(_make_entry(bound, compiled, args, outs), args, outs)
        entry = self._entry(bound, spec, args, outs)
        if spec not in self._online:
            self.install(entry, args, outs)
        return self.run(entry, args, outs)

    def _entry(
        self, bound: _Bound, spec: Spec, args: tuple[Any, ...], outs: tuple[Array, ...] | None
    ) -> Entry:
        """Return the executable with sizes, strides and plan for operands of one form."""
        arrays = [o for o in (*args, *(outs or ())) if isinstance(o, np.ndarray)]
        key = (bound.variant, spec, tuple((a.shape, a.strides) for a in arrays), outs is None)
        session = self.session
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                if len(self._entries) >= _MAX_ENTRIES:
                    self._entries.clear()
                compiled = bound.variant.executable(
                    bound.sizes,
                    spec.layouts,
                    session.tuned(bound.variant),
                    session.advised(bound.variant),
                )
                entry = self._entries[key] = _make_entry(bound, compiled, args, outs)
            return entry

    def _tune_at_call(
        self, bound: _Bound, spec: Spec, args: tuple[Any, ...], outs: tuple[Array, ...] | None
    ) -> Config | None:
        """Tune as `tune="first-call"` and `"online"` say; return a candidate for this very call."""
        from tcdsl import tuning
        from tcdsl.autotune.report import reporter
        from tcdsl.autotune.tuner import tune

        settings = self.session.settings
        problem = tuning.problem_of_call(bound.variant, spec, args, outs)
        budget = (settings.seconds, settings.trials, settings.seed)
        if settings.tune == "first-call":
            if spec not in self._tuned_here:
                self._tuned_here.add(spec)
                if tuning.tuned_config(bound.variant, spec, self.database) is None:
                    seconds, trials, seed = budget
                    tune(
                        [problem],
                        cache=self.database,
                        seconds=seconds,
                        trials=trials,
                        seed=seed,
                        report=reporter(),
                    )
            return None
        if spec in self._tuned_here:
            return None
        online = self._online.get(spec)
        if online is None:
            online = self._online[spec] = tuning.Online(problem, self.database, *budget)
        if online.is_over:  # from now on the best serves, as in "cached"
            self._tuned_here.add(spec)
            del self._online[spec]
            self._forget_choices(bound.variant)
            return None
        return online.take()

    def _raise_fault(self, operand: int, dim: int, value: int, extent: int) -> NoReturn:
        names = (*self.params, *self.returns)
        name = names[operand] if operand >= 0 else "a temporary"
        raise BoundsError(
            f"{self.name}: subscript {dim} of '{name}' is {value}, outside [0, {extent})\n"
            "  the outputs of this call are undefined"
        )


def _spec(bound: _Bound, args: tuple[Any, ...], outs: tuple[Array, ...] | None) -> Spec:
    """Return the exact specialisation for these operands."""
    tensors = bound.variant.checked.params
    layouts = [
        layout_of(o) if t.shape else contiguous(0) for o, t in zip(args, tensors, strict=True)
    ]
    if outs is None:
        layouts += [contiguous(len(shape)) for shape in bound.shapes]
    else:
        layouts += [layout_of(o) for o in outs]
    return Spec(tuple(bound.sizes.items()), tuple(layouts), bound.variant.threads)


def _make_entry(
    bound: _Bound, compiled: Compiled, args: tuple[Any, ...], outs: tuple[Array, ...] | None
) -> Entry:
    """Return an executable bound to sizes and strides."""
    checked = bound.variant.checked
    params = tuple(
        _form(o) if t.shape else numpy_dtype(t.dtype)
        for o, t in zip(args, checked.params, strict=True)
    )
    if outs is None:
        dense = zip(bound.dtypes, bound.shapes, strict=True)
        returns: tuple[ArrayForm, ...] = tuple((d, s, None) for d, s in dense)
    else:
        returns = tuple(map(_form, outs))
    return Entry(
        compiled.loaded.address,
        tuple(bound.sizes[s] for s in checked.sizes),
        params,
        returns,
        bound.variant.inplace,
        compiled.loaded.library,
    )


def _form(array: Array) -> ArrayForm:
    strides = tuple(s // array.itemsize for s in array.strides)
    return array.dtype, array.shape, strides


def _is_same_view(a: Array, b: Array) -> bool:
    return (
        a.ctypes.data == b.ctypes.data
        and a.shape == b.shape
        and a.strides == b.strides
        and a.dtype == b.dtype
    )


def _initial(bound: _Bound) -> tuple[Array, ...] | None:
    """Return fresh outputs with their initial values where the definition starts by updating one.

    `op=` without `!` on a return combines with the caller's buffer; where none is given, with the
    identity of op.
    """
    returns = bound.variant.checked.returns
    if not any(t.is_updated for t in returns):
        return None
    outs = []
    for tensor, shape, dtype in zip(returns, bound.shapes, bound.dtypes, strict=True):
        first = next(
            s
            for s in bound.variant.checked.body
            if isinstance(s, typed.Statement) and s.target == tensor.name
        )
        outs.append(np.full(shape, identity(first.op.rstrip("!"), dtype), dtype))
    return tuple(outs)
