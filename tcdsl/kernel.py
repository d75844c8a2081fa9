"""The user's object: a definition that is called with arrays."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from sys import intern
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np

from tcdsl.calls.bindings.session import Session, Tune, check_budget, shipped_in
from tcdsl.calls.bindings.variant import Compiled, Variant
from tcdsl.calls.call import Arguments, Call, Outputs, tell_apart
from tcdsl.calls.gpu.device_calls import DeviceCalls
from tcdsl.calls.gpu.faults import Names, bounds_error
from tcdsl.calls.operands.arguments import Array, as_array, check_integer
from tcdsl.calls.operands.device_arrays import is_on_device
from tcdsl.calls.operands.foreign import has_dlpack, like, written
from tcdsl.calls.process.bounded import thinned
from tcdsl.calls.process.locks import Lock
from tcdsl.codegen.machine.config import Config
from tcdsl.codegen.machine.spec import Spec
from tcdsl.codegen.runtime import MAX_OPERANDS, Entry
from tcdsl.described import Described
from tcdsl.grammar.ranks.ellipsis import shapes_of_rank
from tcdsl.grammar.text import nodes
from tcdsl.grammar.text.errors import AllocationError, TCTypeError
from tcdsl.grammar.types.dtypes import BY_NAME
from tcdsl.text.names import is_lasting, of_the_text, result_type

if TYPE_CHECKING:
    from tcdsl.autotune.store.shipped import Shipped
    from tcdsl.calls.gpu.raw import Raw
    from tcdsl.codegen.gradient.wanted import Wrt
    from tcdsl.forward_mode import WithTangents
    from tcdsl.gradient import Pull, WithGradient
    from tcdsl.grammar.batch.definition import Randomness
    from tcdsl.tuning import FirstCalls, Online

_MAX_ENTRIES = 2048  # forms of operands whose plans are kept, as many as the launcher has rows


class Kernel(Described):
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
        self._first_calls: FirstCalls | None = None
        self._tuned_here: set[Spec] = set()
        self._with_gradient: dict[Any, WithGradient] = {}  # by what was asked for
        self._with_tangents: WithTangents | None = None
        self._whole: Self | None = None
        self._batched: dict[object, Self] = {}
        self._asked: dict[object, Self] = {}  # the same by the arguments of `batched`
        self._lock = Lock()
        names = tuple(p.name for p in definition.returns)
        params = definition.params
        if len(params) + len(names) > MAX_OPERANDS:
            raise TCTypeError(
                f"{definition.name} has {len(params) + len(names)} parameters and returns, "
                f"a kernel has at most {MAX_OPERANDS}\n  join some into arrays"
            )
        self._result = result_type(definition.name, names)
        super().__init__(
            definition.name,
            tuple(intern(p.name) for p in params),
            names,
            self._call_slowly,
            self._raise_fault,
            self._result if len(names) > 1 else None,
            tuple(intern(g.name) for g in definition.generics),
        )
        self._devices = DeviceCalls(self)
        self.__name__ = self.__qualname__ = definition.name  # as functions have it

    def derive(self, session: Session, definition: nodes.Def) -> Self:
        """Return a kernel of another session like this one: whatever is made of a kernel is.

        A subclass with state of its own hands it on here, and in `__reduce__`.
        """
        return type(self)(session, definition)

    def __reduce__(self) -> tuple[Any, ...]:
        return restored, (type(self), self.session, self.name)

    def __copy__(self) -> Self:
        return self  # as a function's: nothing that a user can set differs between two

    def __deepcopy__(self, memo: object) -> Self:
        return self

    if not TYPE_CHECKING:  # to a checker a name that a kernel has not is a slip of the pen

        def __getattr__(self, name: str) -> Kernel:
            # `T = define(...)`, `T.fcrelu(...)` reads the same for one definition as for several
            if name == self.name:
                return self
            raise AttributeError(f"no attribute or definition '{name}'; the text has {self.name}")

    def __getitem__(self, name: str) -> Kernel:
        """Return this kernel by its name, also where that is a member's: ``T["text"]``."""
        if name == self.name:
            return self
        raise KeyError(f"no definition '{name}'; the text has {self.name}")

    def with_rank(self, rank: int) -> Self:
        """Return this kernel with each `...` of its parameters standing for so many dimensions.

        Its sizes are named `D0`, `D1`, ...; calls do not need it, they have arrays with ranks.
        """
        return self.with_shapes(*shapes_of_rank(self.definition, rank))

    def with_shapes(self, *shapes: tuple[int, ...]) -> Self:
        """Return this kernel for arguments of the ranks of these, and 1 where these are repeated.

        Like `with_rank`, where the ranks differ.
        """
        if not self.has_any_rank:
            return self
        return self.derive(*self.session.with_shapes(self.definition, shapes))

    # ---- a batch

    def batched(
        self,
        /,
        *which: Any,
        out_dims: Any = 0,
        randomness: Randomness = "same",
        **in_dims: int | None,
    ) -> Self:
        """Return this kernel over a batch: its text with one more index, a kernel as any other.

        ``k.batched("X")`` takes a new first dimension of X and gives one of each output that
        depends on X; what does not depend on it is computed once. As `torch.func.vmap`, but one
        kernel: a product of matrices over a batch is one product.

        Parameters
        ----------
        *which : str
            The parameters that have the batch, as their first dimension: all, if nothing is said.
            Or one mapping of names to dimensions, or one tuple with a dimension or None for each.
        out_dims : int, mapping of str to int or None, or tuple, default 0
            Where outputs have the batch, if they depend on it. One that is named has it in any
            case, or, for None, may not depend on it.
        randomness : {"same", "different"}
            Whether ``rand`` gives each element of the batch the same numbers, where its seed is one
            for all. A seed that has the batch gives each the numbers of its seed.
        **in_dims : int or None
            The dimension of the batch by parameter, ``X=1, W=None``; negative ones count from the
            last. A parameter that is called `out_dims` or `randomness` goes into a mapping.

        Returns
        -------
        Kernel
            Named ``batched_k``; the same one whenever the same is asked. Its `out_dims` say which
            outputs have the batch. It can be shown, tuned, differentiated and batched again.

        Raises
        ------
        TCTypeError
            If a name or dimension is not there, or if ranges depend on a scalar that is to have the
            batch: all elements of a batch have one size.

        Examples
        --------
        >>> import numpy as np
        >>> import tcdsl as tc
        >>> dot = tc.define("def dot(float(N) x, float(N) y) -> (s) { s +=! x(i) * y(i) }")
        >>> dot.batched("x")(np.ones((2, 3), np.float32), np.ones(3, np.float32))
        array([3., 3.], dtype=float32)
        """
        question = which, tuple(in_dims.items()), out_dims, randomness
        with contextlib.suppress(KeyError, TypeError):  # not asked yet, or by a list or mapping
            return self._asked[question]
        from tcdsl.derived.batching import asked

        dims, named, other = asked(self, which, in_dims, out_dims)
        meaning = tuple(dims.items()), tuple(sorted(named.items())), other, randomness
        found = self._batched.get(meaning)
        if found is None:
            made = self._over_batch(dims, named, other, randomness)
            with self._lock:
                found = self._batched.setdefault(meaning, made)
        with contextlib.suppress(TypeError):
            self._asked[question] = found
        return found

    def _over_batch(
        self,
        in_dims: Mapping[str, int],
        out_dims: Mapping[str, int | None],
        out_dim: int,
        randomness: Randomness,
    ) -> Self:
        """Return this kernel over a batch; see `batched`, which knows what each argument means."""
        from tcdsl.derived.batching import over_batch

        session, _ = over_batch(self, in_dims, out_dims, out_dim, randomness)
        return self.derive(session, session.program.defs[-1])

    @property
    def out_dims(self) -> tuple[int | None, ...]:
        """Where each output has the batch, None for not: of a kernel that `batched` gave."""
        return self.session.out_dims or (None,) * len(self.returns)

    # ---- derivatives

    def with_grad(
        self,
        *,
        wrt: Wrt | None = None,
        checkpoint: int | None = None,
        memory_limit: int | None = None,
        copy: bool = True,
    ) -> WithGradient:
        """Return this kernel such that a call gives ``(outputs, pull)``; see `WithGradient`.

        Parameters
        ----------
        wrt : str or sequence of str, optional
            The float parameters that the gradient is by, in the order of its results; by default
            all, in theirs. What only others need is neither computed nor kept.
        checkpoint, memory_limit : int, optional
            What is kept of the turns of loops; see `tcdsl.grad`. The sizes are those of each call.
        copy : bool, default True
            Whether the way back keeps copies, so that nobody changes what it reads. False saves
            their time and memory: then do not write to arguments or outputs until the last pull.

        Examples
        --------
        >>> import numpy as np
        >>> import tcdsl as tc
        >>> square = tc.define("def square(double(N) x) -> (y) { y(i) = x(i) * x(i) }").with_grad()
        >>> y, pull = square(np.array([1.0, 2.0]))
        >>> y, pull(np.array([1.0, 10.0]))
        (array([1., 4.]), array([ 2., 40.]))
        """
        from tcdsl.codegen.gradient.wanted import listed_names
        from tcdsl.gradient import MEMORY_LIMIT, Memory, WithGradient

        names = None if wrt is None else listed_names(self.name, wrt)
        limit = MEMORY_LIMIT if memory_limit is None else memory_limit
        key = names, checkpoint, limit, copy
        found = self._with_gradient.get(key)
        if found is None:
            made = WithGradient(self, Memory(checkpoint, limit), wrt=names, copy=copy)
            with self._lock:
                found = self._with_gradient.setdefault(key, made)
        return found

    def vjp(self, /, *args: Any, wrt: Any = None, **named: Any) -> tuple[Any, Pull]:
        """Call the kernel; return its outputs and the vector-Jacobian product there.

        ``y, pull = k.vjp(x)``, and ``pull(d_y)`` is ``sum_i d_y[i] * dy[i] / dx``. pull keeps
        copies: x and y may be written to; `with_grad` with ``copy=False`` does without.

        Parameters
        ----------
        *args, **named
            As of a call.
        wrt : str or sequence of str, optional
            The parameters that pull gives a gradient by, as in `with_grad`. Where the text has a
            parameter or generic of that name, the keyword is its value, and only `with_grad`
            takes parameters: ``k.with_grad(wrt=["x"])(x, wrt=3)``.
        """
        options, named = of_the_text(self.definition, {"wrt": wrt}, named)
        return self.with_grad(**options)(*args, **named)

    def jvp(
        self,
        primals: Sequence[Any] | Mapping[str, Any],
        tangents: Sequence[Any] | Mapping[str, Any],
        /,
        **generics: Any,
    ) -> tuple[Any, Any]:
        """Call the kernel; return its outputs and the Jacobian-vector product there.

        ``y, t_y = k.jvp((x,), (t_x,))``, where ``t_y`` is ``sum_i dy/dx[i] * t_x[i]``: how fast y
        changes where x moves along ``t_x``.

        Parameters
        ----------
        primals : sequence, or mapping by name
            The arguments of a call.
        tangents : sequence, or mapping by name
            For each argument a tangent of its shape and type, or None where it stays as it is, as
            integers do. Nothing is computed for those.
        **generics
            As of a call.

        Returns
        -------
        outputs, tangents
            What the kernel returns, and the tangent of each float output: bare for one, else a
            named tuple (``t_O`` for O).

        Examples
        --------
        >>> import numpy as np
        >>> import tcdsl as tc
        >>> square = tc.define("def square(double(N) x) -> (y) { y(i) = x(i) * x(i) }")
        >>> square.jvp((np.array([1.0, 2.0]),), (np.array([1.0, 10.0]),))
        (array([1., 4.]), array([ 2., 40.]))
        """
        return self.with_tangents()(primals, tangents, **generics)

    def with_tangents(self) -> WithTangents:
        """Return this kernel such that a call is `jvp`, which it makes once for the same types."""
        from tcdsl.forward_mode import WithTangents

        if self._with_tangents is None:
            made = WithTangents(self)
            with self._lock:
                self._with_tangents = self._with_tangents or made
        return self._with_tangents

    @property
    def whole(self) -> Self:
        """A gradient (`tcdsl.grad`) without what is kept: it computes that. Else this kernel."""
        from tcdsl.gradient import whole_of

        with self._lock:
            if self._whole is None:
                self._whole = whole_of(self)
            return self._whole

    # ---- tuning

    @property
    def database(self) -> Path:
        """The SQLite file of tuned configs that calls look into."""
        return self.session.database

    def with_tune(self, tune: Tune) -> Self:
        """Return this kernel with another setting of `tune`, and executables of its own."""
        return self._with_settings(tune=tune)

    def with_configs(self, configs: str | PathLike[str] | Shipped | None) -> Self:
        """Return this kernel with tuned configs that come with a model; see `define`.

        They take the place of those that it had; None takes them away. Besides a file it takes what
        one was read into, `tcdsl.autotune.store.shipped.Shipped`, which is text by `to_json`.
        """
        return self._with_settings(configs=shipped_in(configs))

    def _with_settings(self, **changes: Any) -> Self:
        old = self.session
        settings = replace(old.settings, **changes)
        session = Session(old.program, settings, old.origin, old.out_dims)
        return self.derive(session, self.definition)

    def tuned_config(self, /, *args: Any, **generics: Any) -> Config | None:
        """Return the config tuned for a call with these arguments, or None."""
        call = self.call(*args, **generics)
        return self.session.tuned(call.variant)(call.spec)

    def autotune(
        self,
        /,
        *args: Any,
        sizes: Sequence[Mapping[str, int]] | None = None,
        cache: str | PathLike[str] | None = None,
        seconds: float | None = None,
        trials: int | None = None,
        seed: int = 0,
        target: str | None = None,
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
        target : "cpu", "cuda" or "cuda:sm_90", optional
            By default where the arrays lie, the CPU for shapes and sizes. A GPU has to be at hand:
            its first one, or the one where the arrays are, is what is measured. Candidates run
            in a process of their own, and what they break there ends with it.
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
            If the sizes do not fit, or the default itself does not run right, or there is no such
            target here.
        """
        from tcdsl import tuning
        from tcdsl.autotune.report import reporter
        from tcdsl.autotune.tuner import tune

        check_budget(seconds, trials)
        known = {g.name for g in self.definition.generics}
        generics = {k: named.pop(k) for k in [*named] if k in known}
        variant, wanted = tuning.requested(self, args, sizes, named, generics, target)
        share = None if seconds is None else seconds / len(wanted)
        database = self.database if cache is None else Path(cache)
        results = tune(
            wanted,
            cache=database,
            seconds=share,
            trials=trials,
            seed=seed,
            report=reporter(quiet),
            shipped=self.session.settings.configs,
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
        self._devices.clear()

    # ---- calls

    def call(self, /, *args: Any, **generics: Any) -> Call:
        """Return what a call with these arguments means, without making it."""
        given = self.arguments(args, generics)
        return (
            self._calls_on_device(args).meaning(given)
            if any(map(is_on_device, args))
            else self._call(given)[0]
        )

    def arguments(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> Arguments:
        """Return parameters, outputs and generics of a call."""
        return tell_apart(self.definition, args, keywords, self.session.origin)

    def raw(self, /, *args: Any, **keywords: Any) -> Raw:
        """Return what a call with these arguments starts on a GPU, as CuPy's own kernels.

        ``raw = k.raw(x, w, b)`` takes what ``k(x, w, b)`` does, `out` too, and starts nothing.
        Each ``start`` of ``for start in raw`` has a `cupy.RawKernel`, its grid, block, arguments
        and shared memory; ``raw()`` starts them all. The machine code is that of calls.

        Raises
        ------
        TCTypeError
            If no argument lies on a GPU, or the kernel adds to an output that is not given.
        ShapeError
            If an output overlaps an input in a way that calls would make a copy for.
        """
        return self._devices.raw(self.arguments(args, keywords))

    def _call_slowly(self, /, *args: Any, **kwargs: Any) -> Any:
        if any(map(is_on_device, args)) or any(map(is_on_device, _values_of(kwargs))):
            return self._calls_on_device((*args, *_values_of(kwargs)))(args, kwargs)
        return self.call_on_host(self.arguments(args, kwargs))

    def _calls_on_device(self, values: Iterable[Any]) -> DeviceCalls:
        """Return what makes calls with these values on a GPU: a subclass may have its own."""
        return self._devices

    def call_on_host(self, given: Arguments) -> Any:
        """Call with arrays in the host's memory, whether or not the launcher knows their form."""
        call, arrays = self._call(given)
        if given.outputs is None:
            example = _example(given.values, arrays)
            result = self._run(replace(call, outs=call.initial()), given, example)
            convert = like(example)
            if len(self.returns) == 1:
                return convert(result) if isinstance(result, np.ndarray) else result
            if isinstance(result[0], np.ndarray):
                return self.result(tuple(map(convert, result)))
            return result  # the launcher made them in the kind of the example
        outs = call.check_outputs(given.outputs)
        targets = call.targets(outs, lambda out: out.copy(order="C"))
        self._run(replace(call, outs=targets), given)
        for value, out, target in zip(given.outputs, outs, targets, strict=True):
            if target is not out:
                out[...] = target
            written(value)
        return given.outputs[0] if len(outs) == 1 else self.result(given.outputs)

    def result(self, outs: tuple[Any, ...]) -> Any:
        """Return several outputs as the definition's named tuple."""
        return self._result._make(outs)

    def _call(self, given: Arguments) -> tuple[Call, list[Array]]:
        """Return a call with these arguments, and the arguments as arrays."""
        for v, p in zip(given.values, self.definition.params, strict=True):
            declared = BY_NAME.get(p.type.name) if isinstance(v, int) and p.type else None
            if declared is not None and declared.is_integer:
                check_integer(v, p.name, declared)
        arrays = [as_array(v, n) for v, n in zip(given.values, self.params, strict=True)]
        variant, sizes = self.session.bind(self.definition, arrays, given.generics)
        return Call.of(variant, sizes, given.values, arrays), arrays

    def _run(self, call: Call, given: Arguments, example: object = None) -> Any:
        try:
            return self._run_on_host(call, given, example)
        except AllocationError:
            raise
        except MemoryError:
            raise call.no_memory() from None

    def _run_on_host(self, call: Call, given: Arguments, example: object) -> Any:
        candidate = self.candidate(call)
        if candidate is not None:
            return self.run(call.entry(candidate), call.operands, call.outs, example)
        with self._lock:  # what another thread's tuning makes stale is not installed after it
            entry = self._entry(call)
            if self.is_settled(call):
                self._install(entry, call.operands, call.outs, given.generics)
                pairs = zip(
                    (*call.operands, *(call.outs or ())),
                    (*given.values, *(given.outputs or ())),
                    strict=False,  # without outputs given there are none to read
                )
                if any(a is not v for a, v in pairs):
                    self._install_as_given(entry, call, given)
        return self.run(entry, call.operands, call.outs, example)

    def _install_as_given(self, entry: Entry, call: Call, given: Arguments) -> None:
        """Let the launcher take arrays of other libraries itself, where it can read them."""
        outs = call.outs
        if outs is not None and given.outputs is not None:
            pairs = zip(outs, given.outputs, strict=True)
            outs = tuple(v if has_dlpack(v) else o for o, v in pairs)
        with contextlib.suppress(ValueError):  # a copy is what fits the entry, not what was given
            self._install(entry, given.values, outs, given.generics)

    def _install(
        self, entry: Entry, operands: Outputs, outs: Outputs | None, generics: Mapping[str, Any]
    ) -> None:
        """Let the launcher run calls of this form itself, where generics have these values."""
        if all(map(is_lasting, generics.values())):
            values = tuple(generics.get(g.name) for g in self.definition.generics)
            self.install(entry, operands, outs, values)

    def _entry(self, call: Call) -> Entry:
        """Return the entry of a call's form, with the executable that serves it."""
        entry = self._entries.get(call.key)
        if entry is None:
            self._entries = thinned(self._entries, _MAX_ENTRIES)
            entry = self._entries[call.key] = call.entry(self.serving(call))
        return entry

    def serving(self, call: Call) -> Compiled:
        """Return the executable that serves calls of this form."""
        variant = call.variant
        return variant.executable(
            call.sizes,
            call.spec.layouts,
            self.session.tuned(variant),
            self.session.advised(variant),
            is_small=call.is_small,
        )

    def is_settled(self, call: Call) -> bool:
        """Whether calls of this form go on with the same executable."""
        return call.spec not in self._online

    def candidate(self, call: Call) -> Compiled | None:
        """Return an executable that is tried in this very call, where tuning at calls says so."""
        if self.session.settings.tune not in ("first-call", "online"):
            return None
        config = self._tune_at_call(call)
        if config is None:
            return None
        return call.variant.compile(call.spec, config, call.sizes)

    def _tune_at_call(self, call: Call) -> Config | None:
        """Tune as `tune="first-call"` and `"online"` say; return a candidate for this very call."""
        from tcdsl import tuning

        spec = call.spec
        if spec in self._tuned_here:
            return None
        if self.session.settings.tune == "first-call":
            with self._lock:
                first = self._first_calls = self._first_calls or tuning.FirstCalls()
            first.once(spec, lambda: tuning.tune_first_call(call, self.session))
            self._tuned_here.add(spec)
            return None
        with self._lock:
            online = self._online.get(spec)
            if online is None:
                online = self._online[spec] = tuning.Online(call, self.session)
            if not online.is_over:
                return online.take()
            self._tuned_here.add(spec)  # from now on the best serves, as in "cached"
            del self._online[spec]
        self._forget_choices(call.variant)
        return None

    def _raise_fault(self, operand: int, dim: int, value: int, extent: int) -> NoReturn:
        names = Names(self.name, (*self.params, *self.returns))
        raise bounds_error(names, operand, dim, value, extent)


def _example(values: Sequence[Any], arrays: Sequence[Array]) -> Any:
    """Return the argument in whose kind results are: the first array of any rank but 0.

    Where all are of rank 0, the first of another library; 0, a number, where there is none.
    """
    of_rank = (v for v, a in zip(values, arrays, strict=True) if a.ndim)
    foreign = (v for v in values if not isinstance(v, np.ndarray | np.generic) and has_dlpack(v))
    return next(of_rank, next(foreign, 0))


def _values_of(keywords: Mapping[str, Any]) -> Iterator[Any]:
    """Yield what keywords give, several outputs one by one."""
    for value in keywords.values():
        if isinstance(value, tuple | list):
            yield from value
        else:
            yield value


def restored(kind: type[Kernel], session: Session, name: str) -> Kernel:
    """Return a kernel from what pickle has of it: its class, its session (a text), its name."""
    return kind(session, session.definition(name))
