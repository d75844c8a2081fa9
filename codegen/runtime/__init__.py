"""The C core that calls kernels: launch table, memory, threads, fork.

Importing this package compiles the core (once, into the cache directory) and loads it.

Launcher(name, params, returns, slow, on_error, result_type=None, generics=(),
         defaults=None)
    The callable of a definition. `k(a, b)`, `k(a, b, out=c)`, `k(a, b, out=(c, d))`, and the same
    with `outputs=`; parameters and generics may come by keyword in any order. A call whose
    operands have a form the launcher knows runs at once: it allocates what `out` does not give,
    runs the executable and returns the outputs, one array or one `result_type`. Any other call is
    `slow(*args, **kwargs)`, as it came.

    params, returns : tuple of str
        Names, in order.
    slow : callable
        Does all that is not per call: checks, conversions, compiling, error texts. It makes an
        `Entry`, `install`s it and returns `run`.
    on_error : callable (tensor, dim, value, extent) -> never
        Raises for a subscript that was out of bounds; the numbers are those of `tc_error`.
    result_type : type, optional
        Tuple type for several returns (a `collections.namedtuple`); made without calling it.
    generics : tuple of str, optional
        Names of what calls may give by keyword beside operands. Calls find these names and those
        of params where they are interned; calls by another string of equal text are `slow`'s, and
        so are those that give a generic after the 31st.
    defaults : tuple, optional
        Of each parameter the number that it is where a call leaves it out, or None.

    A Python subclass is called as fast, unless it defines `__call__`. `calls` counts the runs.
    Three attributes may be set: while `unusual()` gives true every call is `slow`'s;
    `recorded(*args, **generics)` takes in its place calls where nothing but a tracked array (see
    `lend`) stands in the way, if all that comes by keyword are generics that are integers;
    `max_threads()` is how many threads a call may use at most.

Launcher.install(entry, args, outs=None, generics=None, rule=None)
    From now on calls with operands of exactly this form (dtype, shape, strides; for a number,
    which Python or NumPy type it has; of arrays of other libraries their type; with or without
    `outs`) run the entry. 8192 forms are kept, of at most 16 MiB; one more takes the place of some
    by chance.
    Operands the fast path never takes (no exact, aligned ndarray in native byte order, nor an
    array of a type that was lent) are not kept; that is no error. ValueError if the operands are
    not of the entry's form.

    generics : tuple, optional
        A value for each, None for those that the call does not give. An integer counts by its
        value. Anything else is that very object: it must be one that means the same for ever.
    rule : tuple of int, optional
        How the entries of other forms follow from their extents (`kinds.c`): calls of the same
        types, ranks and extents of 1, in C order, make and install their entry themselves where
        it holds. ValueError if it does not give this entry. 64 rules are kept.
Launcher.run(entry, args, outs=None, example=None)
    Run the entry now. Fresh outputs are made by the library of example, where it has a `model`,
    else they are NumPy's. Arrays must be exact ndarrays of the entry's form. ValueError if not, if
    an output is read-only or overlaps another operand (but for `Entry.inplace`), or if a number
    does not fit the type of its parameter.
Launcher.clear()
    Forget all forms.

Entry(executable, sizes, params, returns, inplace=(), keep=None, bounds=(), max_threads=0,
      strides=None)
    An executable and the operands it is for.

    executable : int
        Address of a `tc_executable` (tc_abi.h).
    sizes : tuple of int
        Values of the symbolic sizes, in the order of the program.
    params : tuple
        Per parameter (dtype, shape, strides), or just the dtype of a rank-0 parameter: that one
        is passed by value. strides count elements; None is C order.
    returns : tuple
        Per return (dtype, shape, strides); fresh outputs get these strides.
    inplace : tuple of (return, parameter)
        Pairs that may be the very same view when `out` is given: every read of the parameter is
        at the subscripts written.
    keep : object
        Kept alive with the entry: the library that holds the executable.
    bounds : tuple of int
        Numbers, ascending, of the integer rank-0 parameters whose values sizes or ranges depend
        on: the entry is for the values it was installed with, and only these does plan see.
    max_threads : int
        How many threads its calls may use at most; 0: as many as any call.
    strides : tuple of int or None
        What the executable takes for the strides of all operands, in elements, where it walks other
        dimensions than they have; sizes are those of the dimensions that it walks.
Entry.operands
    Per parameter and return (dtype, shape), None for the shape of one that is passed by value.

lend(kind, functions, plain, tracked, tracks, unusual, written, model=None, make=None,
     writable=False) -> int
    Let calls read arrays of exactly this type without `slow`, through the C functions of its
    ``__dlpack_c_exchange_api__``. Fresh outputs are of the kind of the first array parameter: made
    by the library where it has a `model`, else arrays of its that hold our memory. Returns whether
    it is done; 0: the functions are none that are served.

    plain : tuple of callables
        An array for which one of them gives true is `slow`'s: its memory is not all there is to it.
    tracked, tracks : str and callable, or None
        So is one whose attribute `tracked` is true, while `tracks()` is, asked once a call.
    unusual : tuple of callables
        While one of them gives true every call on such arrays is `slow`'s.
    written : callable or None
        Called with a tuple of one for each array that a call has written as `out`.
    model, make : callables or None
        ``make(model(dtype, shape))`` is a fresh output in C order; the model is kept for later
        calls. A model of None: our memory.
    writable : bool
        Whether all arrays may be written; else each is asked.

    What a rule raises, a signal's handler for one, ends the call.

bridge(kind, capsule) -> int
    Ask the functions of a bridge (`bridge.h`) about arrays of a type that was lent, in place of its
    own functions and rules, of which only `model` is asked on; None: ask those again. The library
    of a bridge is never unloaded. Returns whether it is done; 0: the type was not lent, or the
    bridge is for another launcher.
tensors(functions, dtypes) -> capsule
    Take over a library of tensors, once: calls read its tensors in place, those of subclasses too,
    and make its tensors where the first array is one. functions is a capsule of C functions
    (`tensor.h`), dtypes a tuple of NumPy's for its types. Gives the launcher's functions.
bridged() -> int
    How many calls have asked a bridge.

trace(on)
    Keep what runs from now on, or no longer. What it costs: some 50 ns a call while it is on.
traced() -> (calls, lost)
    The calls since the last asking: (launcher, entry, from, to, thread), times in nanoseconds of
    `time.perf_counter_ns`, of the phases alone; and how many came after the first four million,
    which are not kept.
set_num_threads(n), get_num_threads()
    How many threads a call may use. At first `TCDSL_THREADS`, or as many as this process may run
    at once. A change makes entries ask their executables for a new plan.
empty_cache() -> int
    Give the memory that is kept for later outputs back to the system; return its bytes.
set_cache_limit(limit)
    Keep at most so many bytes for later outputs; at first a 64th of the memory there is, from
    64 MiB to 1 GiB.
memory() -> (live, cached, limit)
    Bytes of outputs and workspaces in use, as they were asked for; of blocks kept for later ones;
    and the limit.
"""

from __future__ import annotations

import importlib
import operator
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from tcdsl.codegen.toolchain.host import usable_cores
from tcdsl.grammar.text.errors import DeviceError, InternalError, NumberError, TCTypeError

if TYPE_CHECKING:
    from tcdsl.codegen.runtime import _core
else:
    from tcdsl.codegen.runtime.build import load

    _core = load()

__all__ = [
    "MAX_OPERANDS",
    "MAX_THREADS",
    "ArrayForm",
    "Entry",
    "Launcher",
    "Shape",
    "bridge",
    "bridged",
    "empty_cache",
    "Rules",
    "get_num_threads",
    "lend",
    "memory",
    "set_cache_limit",
    "set_num_threads",
    "tensors",
    "trace",
    "traced",
]

Shape = tuple[int, ...]
ArrayForm = tuple[np.dtype[Any], Shape, Shape | None]  # dtype, shape, strides in elements
MAX_OPERANDS = 512  # parameters and returns of a kernel; operand.c
MAX_THREADS = _core.MAX_THREADS
Entry = _core.Entry
Launcher = _core.Launcher
Rules = tuple[  # of `lend`, behind the functions
    tuple[Callable[[Any], object], ...],
    str | None,
    Callable[[], object] | None,
    tuple[Callable[[], object], ...],
    Callable[[tuple[Any]], object] | None,
    Callable[[np.dtype[Any], Shape], Any] | None,
    Callable[[Any], Any] | None,
    bool,
]
lend = _core.lend
bridge = _core.bridge
bridged = _core.bridged
empty_cache = _core.empty_cache
memory = _core.memory
tensors = _core.tensors
trace = _core.trace
traced = _core.traced


def get_num_threads() -> int:
    """Return how many threads a call may use."""
    return _core.get_num_threads()


def set_num_threads(count: int) -> None:
    """Let every later call of the process use so many threads at most.

    At first it is `TCDSL_THREADS`, or as many as the process may run at once.

    Parameters
    ----------
    count : int
        1 to 256.

    Raises
    ------
    TCTypeError
        If it is no integer.
    NumberError
        If it is none of these.
    """
    cure = f"pass a number of threads from 1 to {MAX_THREADS}, as set_num_threads(4)"
    try:
        number = operator.index(count)
    except TypeError:
        message = f"set_num_threads: expected count as an int, got {count!r:.40}\n  {cure}"
        raise TCTypeError(message) from None
    if not 1 <= number <= MAX_THREADS:
        raise NumberError(f"set_num_threads: count is {number!r:.40}\n  {cure}")
    _core.set_num_threads(number)


def set_cache_limit(limit: int) -> None:
    """Keep at most so many bytes of outputs that have died for later ones.

    At first it is a 64th of the memory there is, from 64 MiB to 1 GiB a process.

    Parameters
    ----------
    limit : int
        In bytes; 0 keeps nothing.

    Raises
    ------
    TCTypeError
        If it is no integer.
    NumberError
        If it is negative, or more than an address counts.
    """
    cure = "pass a number of bytes, as set_cache_limit(2**30) for 1 GiB; 0 keeps nothing"
    try:
        size = operator.index(limit)
    except TypeError:
        message = f"set_cache_limit: expected limit as an int, got {limit!r:.40}\n  {cure}"
        raise TCTypeError(message) from None
    if not 0 <= size < 1 << 63:
        what = "negative" if size < 0 else "beyond 2**63"
        raise NumberError(f"set_cache_limit: limit is {what}, {size!r:.40}\n  {cure}")
    _core.set_cache_limit(size)


def _setup() -> None:
    package = "numpy._core" if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else "numpy.core"
    umath = importlib.import_module(f"{package}._multiarray_umath")
    kinds = (np.bool_, np.integer, np.floating)
    numbers = [t for t in np.sctypeDict.values() if issubclass(t, kinds)]
    plain = [t for t in numbers if np.dtype(t).itemsize <= 8]
    bfloat16 = np.dtype(ml_dtypes.bfloat16)
    types = tuple(dict.fromkeys([np.bool_, *plain, bfloat16.type]))
    _core.setup(umath._ARRAY_API, bfloat16.num, types, InternalError)
    set_num_threads(_first_threads())
    set_cache_limit(min(max(_memory_bytes() // 64, 64 << 20), 1 << 30))


def _first_threads() -> int:
    """Return the number of threads to begin with."""
    wanted = os.environ.get("TCDSL_THREADS", "")
    if not wanted:
        return min(usable_cores(), MAX_THREADS)
    few = wanted.isdecimal() and len(wanted) < 10  # int refuses a text of thousands of digits
    if not few or not 1 <= int(wanted) <= MAX_THREADS:
        raise DeviceError(
            f"TCDSL_THREADS is '{wanted:.40}', expected a number from 1 to {MAX_THREADS}"
        )
    return int(wanted)


def _memory_bytes() -> int:
    """Return the memory of the machine, or of the container where that is less."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
    except OSError:
        return machine
    return machine if limit == "max" else min(machine, int(limit))


_setup()
