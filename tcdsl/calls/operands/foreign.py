"""Arrays of other libraries: what of them is more than their memory, and results of their kind.

What is more than its memory is refused or resolved, never read as if it were not: a mask, units, a
record of gradients, tensors that stand for others; torch's negative bit is resolved. Under
`torch.no_grad()` a tensor that requires grad passes: there torch's own functions record nothing
either. Messages do not advise `.detach()`, which would stop training in silence. What a foreign
object raises while it is asked for its memory becomes a `TCTypeError`.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import ModuleType
from typing import Any
from weakref import WeakSet

import numpy as np

from tcdsl.calls.operands.dlpack import give_bfloat16, take_bfloat16
from tcdsl.codegen import runtime
from tcdsl.grammar.text.dataclass import dataclass
from tcdsl.grammar.text.errors import TCTypeError

Array = np.ndarray[Any, np.dtype[Any]]

_REFUSALS = Exception  # whatever a foreign `__dlpack__` raises: it is not ours to go on from


@dataclass(frozen=True)
class OwnTensors:
    """The tensors of our own library, which calls take and give as they take NumPy's arrays.

    Attributes
    ----------
    kind : type
    array, tensor : callable
        The memory of a tensor as an array, and of an array as a tensor.
    written : callable
        Told of a tensor whose elements have changed.
    is_tracked : callable
        Whether calls on a tensor are recorded now.
    recorded : callable (kernel, args, keywords)
        Makes a call on tensors of which one is tracked.
    """

    kind: type
    array: Callable[[Any], Array]
    tensor: Callable[[Array], Any]
    written: Callable[[Any], None]
    is_tracked: Callable[[Any], bool]
    recorded: Callable[[Any, tuple[Any, ...], Mapping[str, Any]], Any]


_own: OwnTensors | None = None


def use_own(tensors: OwnTensors) -> None:
    """Let calls take the tensors of our own library."""
    global _own
    _own = tensors


def is_own(value: object) -> bool:
    """Whether a value is a tensor of our own library."""
    return _own is not None and isinstance(value, _own.kind)


def recording(values: Iterable[Any]) -> OwnTensors | None:
    """Return who records a call with these values: our own library, if it tracks one; or None."""
    own = _own
    if own is None or not any(isinstance(v, own.kind) and own.is_tracked(v) for v in values):
        return None
    return own


def has_dlpack(value: object) -> bool:
    """Whether a value has ``__dlpack__``, itself or by a class that stands for another.

    A tensor of our own library counts as one.
    """
    if is_own(value):
        return True
    try:
        return hasattr(value, "__dlpack__")
    except Exception:  # a foreign `__getattr__` may raise anything
        return False


def memory_of(value: Any, name: str, *, is_output: bool = False) -> Array:
    """Return the memory of an object with ``__dlpack__`` as an array.

    A torch tensor with the negative bit is resolved, which copies it; as an output it is refused.

    Raises
    ------
    TCTypeError
        If it gives none, or its elements are more than what lies in memory.
    """
    if _own is not None and isinstance(value, _own.kind):
        return _own.array(value)
    given, value = value, plain(value, name, is_output=is_output)
    try:
        array = _taken(value)
    except _REFUSALS as refusal:
        why = str(refusal) or type(refusal).__name__
        cure = ""
        torch = _torch_of(value)
        if torch is not None and torch._C._functorch.is_legacy_batchedtensor(value):
            cure = (
                "\n  is_grads_batched= and vectorize= of torch.autograd do not reach kernels: "
                "torch.func.vmap, jacrev, jacfwd and hessian do"
            )
        raise TCTypeError(f"argument '{name}' gives no memory: {why}{cure}") from None
    if array.size and array.flags.owndata:  # NumPy allocates where the address is 0
        raise TCTypeError(
            f"argument '{name}' has the shape {array.shape}, but no memory: its address is 0"
        )
    _lend(given, _torch_of(given))
    return array


def plain(value: Any, name: str, *, is_output: bool = False) -> Any:
    """Return an array of another library that is no more than its memory, of the same elements.

    Raises
    ------
    TCTypeError
        If there is none.
    """
    torch = _torch_of(value)
    return value if torch is None else _plain_tensor(torch, value, name, is_output)


def _taken(value: Any) -> Array:
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError) as refusal:
        try:
            return take_bfloat16(value)
        except _REFUSALS:
            raise refusal from None  # it says what is wrong; the second try was for one type only


def refuse_meaning(array: Array, name: str) -> None:
    """Refuse an array of NumPy's whose elements are more than what lies in memory.

    Raises
    ------
    TCTypeError
        If it has a mask, or is of a class whose arithmetic is its own (units, for instance).
    """
    if isinstance(array, np.ma.MaskedArray):
        raise TCTypeError(
            f"argument '{name}' is a masked array, and kernels know no mask\n"
            f"  pass {name}.filled(value) with what masked elements stand for"
        )
    if type(array).__array_ufunc__ is not np.ndarray.__array_ufunc__:
        raise TCTypeError(
            f"argument '{name}' is of type {type(array).__name__}, whose arithmetic is not NumPy's "
            f"own\n  pass numpy.asarray({name}) if its bare numbers are meant"
        )


# ---- torch, which has tensors that are more than their memory; it is never imported here


def _torch_of(value: object) -> ModuleType | None:
    """Return torch, if it is loaded and the value is a tensor of its."""
    if _own is not None and isinstance(value, _own.kind):
        return None  # whatever goes by the name of torch (`as_torch`)
    torch = sys.modules.get("torch")
    kind = getattr(torch, "Tensor", None)
    return torch if isinstance(kind, type) and isinstance(value, kind) else None


def _plain_tensor(torch: Any, x: Any, name: str, is_output: bool) -> Any:
    """Return a tensor that is no more than its memory, of the same values."""
    what = f"argument '{name}'"
    if type(x).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        raise TCTypeError(
            f"{what} is a {type(x).__name__}, a tensor that stands for another\n"
            "  pass the torch.Tensor that holds the elements"
        )
    if x.requires_grad and torch.is_grad_enabled():
        raise TCTypeError(
            f"{what} requires grad, and torch would not see this call: training would stop here\n"
            "  define the kernel by tcdsl.torch.define, whose calls autograd sees; or call it "
            "under torch.no_grad(),\n  where no gradient is wanted"
        )
    if _is_transformed(torch, x):
        raise TCTypeError(
            f"{what} is inside a transform of torch (vmap, jvp, forward-mode AD), which would not "
            "see this call\n  define the kernel by tcdsl.torch.define, or call it outside of it"
        )
    if tracer := _tracer(torch):
        raise TCTypeError(
            f"{what} is traced by {tracer}, which would not see this call: what it gives now would "
            "be a constant of the program\n"
            "  define the kernel by tcdsl.torch.define, whose calls are traced"
        )
    if x.layout is not torch.strided:
        raise TCTypeError(f"{what} has the layout {x.layout}\n  pass {name}.to_dense()")
    if x.is_quantized:
        raise TCTypeError(f"{what} is quantized ({x.dtype})\n  pass {name}.dequantize()")
    if x.is_conj() or x.is_neg():
        if is_output:
            raise TCTypeError(
                f"{what} is a view that negates what is written to it\n"
                f"  give a buffer of its own, then copy: {name}.copy_(buffer)"
            )
        x = x.resolve_conj().resolve_neg()
    if x._is_zerotensor():  # zeros that nobody has written anywhere
        if is_output:
            raise TCTypeError(
                f"{what} is a tensor of zeros without memory, which keeps nothing\n"
                f"  give torch.zeros({list(x.shape)}, dtype={x.dtype})"
            )
        return torch.zeros(x.shape, dtype=x.dtype, device=x.device)
    return x.detach() if x.requires_grad else x


def _tracer(torch: Any) -> str:
    """Return what makes a program of the calls that it sees, "" if nothing does."""
    if torch._C._get_tracing_state() is not None:
        return "torch.jit.trace"
    proxies = sys.modules.get("torch.fx.experimental.proxy_tensor")
    return "make_fx" if proxies is not None and proxies.get_proxy_mode() is not None else ""


def _is_transformed(torch: Any, x: Any) -> bool:
    is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor(x)
    ad = torch.autograd.forward_ad
    is_pushed = ad._current_level >= 0 and torch._C._is_fwd_grad_enabled()
    is_dual = is_pushed and ad.unpack_dual(x).tangent is not None
    return bool(is_wrapped or is_dual)


# ---- types whose arrays the launcher reads by itself

_seen: WeakSet[type] = WeakSet()  # a class made in a function goes with it


def _lend(value: object, torch: Any) -> None:
    """Let the launcher read arrays of this very type, if it hands out C functions for that."""
    kind = type(value)
    if kind in _seen:
        return
    _seen.add(kind)
    if torch is not None:
        if kind not in (torch.Tensor, torch.nn.Parameter):
            return  # of a subclass nothing is known
        functions = getattr(kind, "__dlpack_c_exchange_api__", None)
        rules = _rules_of_torch(torch)
    else:
        functions = vars(kind).get("__dlpack_c_exchange_api__")
        rules = ((), None, None, (), None, None, None, False)
    if functions is not None:
        try:
            runtime.lend(kind, functions, *rules)
        except (TypeError, ValueError):
            return  # no capsule of that name: the slow path serves
        if torch is not None:
            runtime.bridge(kind, _bridge)


_bridge: object = None  # to torch's tensors; `tcdsl.torch.native` makes it


def use_bridge(bridge: object) -> None:
    """Let the launcher ask a bridge, a capsule of `bridge.h`, about torch's tensors, or None."""
    global _bridge
    _bridge = bridge
    torch = sys.modules["torch"]
    for kind in (torch.Tensor, torch.nn.Parameter):
        runtime.bridge(kind, bridge)


# python -m timeit -s "import torch" "torch.empty(2**23).fill_(1)": 65 ms; 0.2 where the memory is
# kept (-s "import torch; y = torch.empty(2**23)" "y.fill_(1)"); of 4 MiB 27 and 26 us.
_OWN_MEMORY = 32 << 20  # bytes; from here on the C library gives freed memory back to the system


@cache  # one object: Tensor and Parameter are asked once a call
def _rules_of_torch(torch: Any) -> runtime.Rules:
    """Return what calls ask of torch's tensors; see `runtime.lend`."""
    ad, core = torch.autograd.forward_ad, torch._C

    def model(dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
        if math.prod(shape) * dtype.itemsize >= _OWN_MEMORY:
            return None
        made = torch.empty(shape, dtype=getattr(torch, dtype.name), device="cpu")
        made.untyped_storage().resize_(0)  # it is asked for its form only
        return made

    return (
        (torch.Tensor.is_neg,),
        "requires_grad",
        torch.is_grad_enabled,
        (
            core._are_functorch_transforms_active,
            core._len_torch_dispatch_stack,
            core._is_torch_function_mode_enabled,
            core._get_tracing_state,
            lambda: ad._current_level >= 0,
        ),
        core._increment_version,
        model,
        torch.empty_like,
        True,
    )


def written(value: Any) -> None:
    """Tell a library that elements of its array have changed, so far as it asks to be told.

    Torch does, so that autograd notices a saved tensor that was changed.
    """
    if _own is not None and isinstance(value, _own.kind):
        _own.written(value)
    torch = _torch_of(value)
    if torch is not None:
        torch.autograd.graph.increment_version(value)


# ---- results


def like(example: object) -> Callable[[Any], Any]:
    """Return how to hand results back in the kind of the first argument.

    NumPy arrays and numbers get NumPy arrays. An array with ``__dlpack__`` gets its results
    through the ``from_dlpack`` of its array namespace (``x.__array_namespace__()``), or else of the
    library where its class or a base of it is at home, sharing memory; if there is neither, NumPy
    arrays. An array without ``__dlpack__`` gets what the device's own library has. The module of
    the class alone would not do: JAX's arrays are at home in `jaxlib`, without ``from_dlpack``.

    References
    ----------
    Python array API standard 2024.12, ``__array_namespace__``, ``from_dlpack``.
    """
    if _own is not None and isinstance(example, _own.kind):
        return _own.tensor
    is_numpys = isinstance(example, np.ndarray | np.generic | bool | int | float)
    if is_numpys or not has_dlpack(example):
        return lambda array: array
    from_dlpack = _importer(example)
    if from_dlpack is None:
        return lambda array: array

    def converted(array: Any) -> Any:
        is_bfloat16 = isinstance(array, np.ndarray) and array.dtype.name == "bfloat16"
        try:
            return from_dlpack(give_bfloat16(array) if is_bfloat16 else array)
        except Exception as refusal:
            kind = type(example).__name__
            raise TCTypeError(
                f"a result of type {array.dtype} cannot become a {kind}: {refusal}"
            ) from None

    return converted


def _importer(example: Any) -> Callable[[Any], Any] | None:
    """Return the ``from_dlpack`` of an array's library, None if it has none."""
    with contextlib.suppress(Exception):  # none, or a promise not kept: look where it is at home
        found = example.__array_namespace__().from_dlpack
        if callable(found):
            return found  # type: ignore[no-any-return]
    for kind in type(example).__mro__:
        home = kind.__module__.partition(".")[0]
        if home == "__main__":
            continue  # a script, whatever it has imported
        library = sys.modules.get(home)
        found = getattr(library, "from_dlpack", None)
        if found is None:
            found = getattr(getattr(library, "dlpack", None), "from_dlpack", None)
        if callable(found):
            return found  # type: ignore[no-any-return]
    return None
