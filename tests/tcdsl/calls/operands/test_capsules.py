"""Capsules of DLPack made by hand: what lies about itself, and types that hand out C functions."""

from __future__ import annotations

import ctypes
import gc
import weakref
from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.codegen import runtime
from tcdsl.grammar.text.errors import TCTypeError
from tests.codegen.runtime.conftest import Kernels, library  # noqa: F401 - a fixture

pytestmark = pytest.mark.cc

P, I32, I64, U64 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_uint64


class Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = [
        ("data", P), ("device", I32), ("number", I32), ("ndim", I32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(I64)), ("strides", ctypes.POINTER(I64)), ("offset", U64),
    ]  # fmt: skip


class Managed(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = [("tensor", Tensor), ("context", P), ("deleter", P)]


class Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", P), ("deleter", P),
        ("flags", ctypes.c_uint64), ("tensor", Tensor),
    ]  # fmt: skip


new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, (P, ctypes.c_char_p, P)


class Lender:
    """An array of NumPy's as DLPack describes it, with changes."""

    def __init__(
        self, array: Any, *, version: tuple[int, int] | None = None, flags: int = 0, **changes: Any
    ) -> None:
        self.array = array
        nd = array.ndim
        self.shape = (I64 * max(1, nd))(*array.shape)
        self.strides = (I64 * max(1, nd))(*(s // array.itemsize for s in array.strides))
        code = {"i": 0, "u": 1, "f": 2, "b": 6}[array.dtype.kind]
        address = array.__array_interface__["data"][0]
        bits = 8 * array.itemsize
        self.tensor = Tensor(address, 1, 0, nd, code, bits, 1, self.shape, self.strides, 0)
        for name, value in changes.items():
            setattr(self.tensor, name, value)
        self.version, self.flags = version, flags

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **_: Any) -> Any:
        if self.version is None:
            self.made: Any = Managed(self.tensor, None, None)
            return new_capsule(ctypes.addressof(self.made), b"dltensor", None)
        self.made = Versioned(*self.version, None, None, self.flags, self.tensor)
        return new_capsule(ctypes.addressof(self.made), b"dltensor_versioned", None)


@pytest.fixture(scope="module")
def add() -> Any:
    return tc.define("def add(float(N) A, float(N) B) -> (C) { C(i) = A(i) + B(i) }", tune="off")


A = np.arange(4, dtype=np.float32)


@pytest.mark.parametrize("version", [None, (1, 0), (1, 3)])
def test_what_is_right_is_taken(add: Any, version: Any) -> None:
    for changes in ({}, {"strides": None}, {"data": A.ctypes.data - 8, "offset": 8}):
        np.testing.assert_array_equal(add(Lender(A, version=version, **changes), A), 2 * A)


@pytest.mark.parametrize("version", [None, (1, 0)])
@pytest.mark.parametrize(
    "changes",
    [
        {"ndim": 1000}, {"ndim": -1}, {"shape": (I64 * 1)(-4)}, {"lanes": 2}, {"lanes": 0},
        {"bits": 4}, {"bits": 0}, {"bits": 128}, {"code": 99}, {"code": 4}, {"device": 99},
        {"data": None}, {"shape": (I64 * 1)(2**62)},
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(add: Any, version: Any, changes: dict[str, Any]) -> None:
    with pytest.raises(TCTypeError, match="'A'"):
        add(Lender(A, version=version, **changes), A)


def test_versions_and_flags(add: Any) -> None:
    with pytest.raises(TCTypeError, match="'A' gives no memory"):
        add(Lender(A, version=(9, 0)), A)
    with pytest.raises(tc.TCError, match="'C' is read-only"):
        add(A, A, out=Lender(np.zeros(4, np.float32), version=(1, 0), flags=1))
    out = np.zeros(4, np.float32)
    add(A, A, out=Lender(out, version=(1, 0)))
    np.testing.assert_array_equal(out, 2 * A)


# ---- types that hand out C functions

Get = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(Tensor))
Take = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(P))
Make = ctypes.CFUNCTYPE(ctypes.c_int, P, ctypes.POINTER(P))
Free = ctypes.CFUNCTYPE(None, P)


class Functions(ctypes.Structure):
    """DLPackExchangeAPI."""

    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("previous", P), ("allocate", P),
        ("managed_of", Take), ("object_of", Make), ("view_of", Get), ("stream", P),
    ]  # fmt: skip


class Lent(Lender):
    """An array of a library with C functions."""

    is_readonly = False
    is_tracked = False


def _made(tensor: Any) -> Any:
    """Return a Lent over memory that it owns from now on."""
    t = tensor.tensor
    count = int(np.prod([t.shape[d] for d in range(t.ndim)]))
    values = np.ctypeslib.as_array(ctypes.cast(t.data, ctypes.POINTER(ctypes.c_float)), (count,))
    made = Lent(values.reshape([t.shape[d] for d in range(t.ndim)]).copy())
    Free(tensor.deleter)(ctypes.addressof(tensor))
    return made


@pytest.fixture(scope="module")
def lent() -> type[Lent]:
    """Return the type, whose functions live as long as the process."""

    def view_of(x: Any, to: Any) -> int:
        to[0] = x.tensor
        return 0

    def managed_of(x: Any, to: Any) -> int:
        x.managed = Versioned(1, 3, None, None, int(x.is_readonly), x.tensor)
        to[0] = ctypes.addressof(x.managed)
        return 0

    def object_of(tensor: int, to: Any) -> int:
        made = _made(Versioned.from_address(tensor))
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))
        to[0] = id(made)
        return 0

    functions = Functions(1, 3, None, None, Take(managed_of), Make(object_of), Get(view_of), None)
    Lent.functions = functions  # type: ignore[attr-defined]
    capsule = new_capsule(ctypes.addressof(functions), b"dlpack_exchange_api", None)
    Lent.told = []  # type: ignore[attr-defined]
    rules: Any = (
        (lambda x: x.is_readonly and x.is_tracked,),
        "is_tracked",
        lambda: True,
        (),
        lambda arrays: Lent.told.extend(arrays),  # type: ignore[attr-defined]
    )
    assert runtime.lend(Lent, capsule, *rules) == 1
    assert runtime.lend(Lent, capsule, *rules) == 1
    return Lent


def test_such_a_type_needs_no_python_of_ours(add: Any, lent: Any) -> None:
    x = lent(A)
    add(x, A)
    live = runtime.memory()[0]
    for _ in range(3):
        got = add(x, A)
        assert type(got) is Lent, "by its own function"
        np.testing.assert_array_equal(got.array, 2 * A)
        assert runtime.memory()[0] == live, "the library gave the memory back"
    out = lent(np.zeros(4, np.float32), version=(1, 0))
    for _ in range(3):
        assert add(A, x, out=out) is out
        np.testing.assert_array_equal(out.array, 2 * A)
    assert out in lent.told
    out.is_readonly, out.flags = True, 1
    with pytest.raises(tc.TCError, match="'C' is read-only"):
        add(A, x, out=out)


def test_its_rules_and_lies_lead_to_the_slow_path(add: Any, lent: Any) -> None:
    add(lent(A), A)
    calls = add.calls
    for changes in ({"device": 2}, {"ndim": 65}, {"lanes": 3}, {"bits": 12}, {"data": None}):
        with pytest.raises(tc.TCError):
            add(lent(A, **changes), A)
    assert add.calls == calls
    tracked = lent(A)
    tracked.is_tracked = True
    np.testing.assert_array_equal(add(tracked, A), 2 * A)  # slow: NumPy's, for it knows no library
    shifted = lent(np.zeros(17, np.uint8)[1:].view(np.float32))
    np.testing.assert_array_equal(add(shifted, A), A)


class Stopped(BaseException):
    """What a signal's handler raises."""


def test_what_a_signal_raises_in_a_rule_is_the_callers(add: Any, lent: Any) -> None:
    """Ctrl-C comes wherever bytecode runs, in rules too: to go on without it would lose it."""

    class Interrupted(Lent):
        @property
        def is_stopped(self) -> bool:
            raise Stopped

    def stop(*_: Any) -> Any:
        raise Stopped

    def lend(*rules: Any) -> Any:
        kind = type("Kind", (Interrupted,), {})
        functions = new_capsule(ctypes.addressof(lent.functions), b"dlpack_exchange_api", None)
        assert runtime.lend(kind, functions, *rules) == 1
        return kind(A)

    one = lent(A)
    add(one, A)
    for rules in (
        ((), None, None, (stop,), None),
        ((stop,), None, None, (), None),
        ((), "is_stopped", None, (), None),
        ((), "is_tracked", stop, (), None),
    ):
        x = lend(*rules)
        x.is_tracked = True
        calls = add.calls
        with pytest.raises(Stopped):
            add(x, A)
        assert add.calls == calls
        np.testing.assert_array_equal(add(A, A), 2 * A)


def test_what_has_run_is_not_run_again(lent: Any) -> None:
    """An output that is added to would get its summands twice."""
    text = "def add_to(float(N) A) -> (C) { C(i) += A(i) }"
    with pytest.warns(UserWarning, match="TC150"):
        k: Any = tc.define(text, tune="off")

    def no_memory(_: Any) -> None:
        raise MemoryError

    kind = type("Kind", (Lent,), {})
    functions = new_capsule(ctypes.addressof(lent.functions), b"dlpack_exchange_api", None)
    assert runtime.lend(kind, functions, (), None, None, (), no_memory) == 1
    out = kind(np.zeros(4, np.float32), version=(1, 0))
    k(A, out=out)  # by the slow path, which knows the library
    np.testing.assert_array_equal(out.array, A)
    with pytest.raises(MemoryError):
        k(A, out=out)
    np.testing.assert_array_equal(out.array, 2 * A)


@pytest.fixture
def made_by() -> Any:
    """Return a function that lends a type whose outputs these two make."""

    def lend(lent: Any, model: Any, make: Any) -> Any:
        kind = type("Kind", (lent,), {})
        functions = new_capsule(ctypes.addressof(lent.functions), b"dlpack_exchange_api", None)
        rules: Any = ((), None, None, (), None, model, make)
        assert runtime.lend(kind, functions, *rules) == 1
        return kind(A)

    return lend


def test_a_call_has_its_own_plan_though_another_comes_while_outputs_are_made(
    library: Any,  # noqa: F811 - the fixture
    lent: Any,
    made_by: Any,
) -> None:
    """Another thread, here what makes the outputs, may call the same with fewer threads."""
    k = runtime.Launcher("told", (), ("n",), lambda: None, lambda *_: None)
    form = (np.dtype(np.int64), (2,), None)
    entry = runtime.Entry(Kernels(library).address("told"), (), (), (form,), keep=library)

    def make(_: Any) -> Any:
        k.max_threads = lambda: 1
        assert k.run(entry, ()).tolist() == [1, 1]
        return lent(np.zeros(2, np.int64))

    x = made_by(lent, lambda dtype, shape: shape, make)
    before = runtime.get_num_threads()
    runtime.set_num_threads(5)
    try:
        k.max_threads = lambda: 3
        assert k.run(entry, (), None, x).array.tolist() == [3, 3]
    finally:
        runtime.set_num_threads(before)


def test_what_outputs_are_like_is_asked_while_others_ask(lent: Any, made_by: Any) -> None:
    """An answer that fails takes none away that another call has got meanwhile."""
    text = "def sums(float(N) A) -> (B, C) { B(i) = A(i) + A(i)  C(i) = 3 * A(i) }"
    k: Any = tc.define(text, tune="off")
    asked = []

    def model(dtype: Any, shape: Any) -> Any:
        asked.append(shape)
        if len(asked) == 2:
            k(x)
            raise Stopped
        return shape

    x = made_by(lent, model, lambda shape: lent(np.zeros(shape, np.float32)))
    k(lent(A))
    with pytest.raises(Stopped):
        k(x)
    for _ in range(2):
        found = k(x)
        np.testing.assert_array_equal(found.B.array, 2 * A)
        np.testing.assert_array_equal(found.C.array, 3 * A)
    assert len(asked) == 4, "they are kept"
    y = made_by(lent, model, lambda shape: lent(np.ones(shape, np.float32)))
    for one in (y, x, y, x):
        np.testing.assert_array_equal(k(one).C.array, 3 * A)
    assert len(asked) == 4, "of types that are asked the same, for both"


def test_functions_of_another_version_are_not_used() -> None:
    class Other:
        pass

    future = Functions(2, 0, None, None, Take(), Make(), Get(), None)
    rules: Any = ((), None, None, (), None)
    named = b"dlpack_exchange_api"
    assert runtime.lend(Other, new_capsule(ctypes.addressof(future), named, None), *rules) == 0
    with pytest.raises(ValueError, match="incorrect name"):
        runtime.lend(Other, new_capsule(ctypes.addressof(future), b"other", None), *rules)
    with pytest.raises(TypeError):
        runtime.lend(7, new_capsule(ctypes.addressof(future), named, None), *rules)  # type: ignore[arg-type]


def test_a_class_that_is_made_on_the_way_goes_again(add: Any) -> None:
    kind = type("Kind", (Lender,), {})
    np.testing.assert_array_equal(add(kind(A), A), 2 * A)
    gone = weakref.ref(kind)
    del kind
    gc.collect()
    assert gone() is None
