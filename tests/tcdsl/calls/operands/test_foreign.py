"""Arrays of other libraries: more than memory, junk, kinds of results, calls without Python."""

from __future__ import annotations

import sys
import threading
import types
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tcdsl as tc
from tcdsl.calls.operands.arguments import as_array
from tcdsl.calls.operands.foreign import like
from tcdsl.grammar.text.errors import TCTypeError
from tcdsl.grammar.types.dtypes import ALL
from tests.tiers import sampled

pytestmark = pytest.mark.cc

TEXT = """
def add(float(N) A, float(N) B) -> (C) { C(i) = A(i) + B(i) }
def scale<T>(T(N,M) A, T s) -> (B) { B(i, j) = A(i, j) * s }
def first(float(N) A, int32 n) -> (s) { s +=! A(i) where i in 0:n }
def both(float(N) A, float(N) B) -> (C, D) { C(i) = A(i) + B(i) D(i) = A(i) - B(i) }
"""


@pytest.fixture(scope="module")
def k() -> Any:
    return tc.define(TEXT, tune="off")


class OnlyDlpack:
    """An array with the protocol and nothing else."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


class Mine(OnlyDlpack):
    """An array of a library."""


def _library(name: str, **members: Any) -> types.ModuleType:
    module = types.ModuleType(name)
    module.__dict__.update(members)
    return module


# ---- results in the kind of the first array


def test_results_come_by_the_array_namespace(k: Any) -> None:
    class Spaced(OnlyDlpack):
        def __array_namespace__(self, api_version: str | None = None) -> Any:
            return _library("space", from_dlpack=lambda a: Spaced(np.from_dlpack(a)))

    a = np.arange(4, dtype=np.float32)
    got = k.add(Spaced(a), a)
    assert type(got) is Spaced
    np.testing.assert_array_equal(got.array, 2 * a)
    assert type(k.add(a, Spaced(a))) is np.ndarray, "the first array decides"


def test_else_by_the_library_of_the_class_or_of_a_base(
    k: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = _library("own_arrays", from_dlpack=lambda a: Mine(np.from_dlpack(a)))
    monkeypatch.setitem(sys.modules, "own_arrays", made)
    monkeypatch.setattr(Mine, "__module__", "own_arrays.core")

    class Derived(Mine):
        __module__ = "__main__"

    a = np.ones(3, np.float32)
    assert type(k.add(Derived(a), a)) is Mine
    monkeypatch.setitem(sys.modules, "own_arrays", _library("own_arrays", dlpack=made))
    assert type(k.add(Mine(a), a)) is Mine


def test_else_they_are_numpys(k: Any) -> None:
    a = np.ones(3, np.float32)

    class Broken(OnlyDlpack):
        def __array_namespace__(self) -> Any:
            raise RuntimeError("not today")

    for kind in (OnlyDlpack, Broken):
        assert type(k.add(kind(a), kind(a))) is np.ndarray
        got = k.both(kind(a), a, out=(kind(np.zeros_like(a)), np.zeros_like(a)))
        np.testing.assert_array_equal(got.C.array, 2 * a)


def test_a_library_that_refuses_a_result_is_named(k: Any) -> None:
    class Closed(OnlyDlpack):
        def __array_namespace__(self) -> Any:
            return _library("closed", from_dlpack=lambda a: int("x"))

    a = np.ones(3, np.float32)
    with pytest.raises(TCTypeError, match="a result of type float32 cannot become a Closed: inval"):
        k.add(Closed(a), a)


# ---- junk


def _raise(error: BaseException) -> Any:
    raise error


class Junk:
    """What answers the protocol with anything."""

    def __init__(self, capsule: Any, device: Any = (1, 0)) -> None:
        self.capsule, self.device = capsule, device

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule()

    def __dlpack_device__(self) -> Any:
        return self.device


@pytest.mark.parametrize(
    "capsule",
    [
        lambda: None,
        lambda: 7,
        lambda: "dltensor",
        lambda: sys.modules["datetime"].datetime_CAPI,
        lambda: _raise(RuntimeError()),
        lambda: _raise(KeyError("x")),
        lambda: _raise(ZeroDivisionError("x")),
        lambda: _raise(AttributeError("x")),
        lambda: np.ones(3).__dlpack__,
    ],
)
@pytest.mark.parametrize("device", [(1, 0), None, (), ("cpu", 0), (99, 0), (1,), 1])
def test_junk_of_the_protocol_is_a_type_error(k: Any, capsule: Any, device: Any) -> None:
    junk, a = Junk(capsule, device), np.ones(3, np.float32)
    with pytest.raises(TCTypeError, match=r"'A' gives no memory: .+"):
        k.add(junk, a)
    with pytest.raises(TCTypeError, match=r"'C' gives no memory: .+"):
        k.add(a, a, out=junk)


def test_a_capsule_that_was_used_is_a_type_error(k: Any) -> None:
    a = np.ones(3, np.float32)
    capsule: Any = OnlyDlpack(a).__dlpack__()
    twice = Junk(lambda: capsule)
    np.testing.assert_array_equal(as_array(twice, "A"), a)
    with pytest.raises(TCTypeError, match="'A' gives no memory"):
        k.add(twice, a)


def test_a_read_only_array_is_no_output(k: Any) -> None:
    a = np.ones(3, np.float32)
    a.flags.writeable = False
    np.testing.assert_array_equal(k.add(OnlyDlpack(a), a), 2 * a)
    with pytest.raises(tc.TCError, match="'C' is read-only"):
        k.add(a, a, out=OnlyDlpack(a))


# ---- NumPy's own


def test_a_mask_and_units_are_not_dropped(k: Any) -> None:
    class Metres(np.ndarray):
        def __array_ufunc__(self, *args: Any, **options: Any) -> Any:
            raise NotImplementedError

    a = np.ones(3, np.float32)
    masked = np.ma.array(a, mask=[False, True, False])
    for bad, cure in ((masked, "A.filled"), (a.view(Metres), "numpy.asarray")):
        with pytest.raises(TCTypeError, match=cure):
            k.add(bad, a)
        with pytest.raises(TCTypeError, match=cure.replace("A", "C", 1)):
            k.add(a, a, out=bad)


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_classes_that_only_look_different_are_taken(k: Any) -> None:
    m = np.matrix([[1.0, 2.0]])
    np.testing.assert_array_equal(k.scale(m, 3.0), [[3.0, 6.0]])
    assert type(k.scale(m, 3.0)) is np.ndarray


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        (np.zeros(3, ">f4"), "bytes in foreign order"),
        (np.zeros(3, object), "type object, which the language does not have"),
        (np.zeros(3, [("a", "f4")]), "which the language does not have"),
        (np.zeros(3, "U3"), "which the language does not have"),
        (np.zeros(3, "M8[s]"), "which the language does not have"),
        (np.zeros(3, np.longdouble), "which the language does not have"),
        (np.zeros(3, ml_dtypes.float8_e4m3), "which the language does not have"),
    ],
)
def test_elements_that_no_kernel_knows(k: Any, bad: Any, text: str) -> None:
    with pytest.raises(TCTypeError, match=text):
        k.add(bad, bad)
    a = np.ones(3, np.float32)
    with pytest.raises(TCTypeError):
        k.add(a, a, out=bad)


def test_empty_arrays_of_any_strides_and_misaligned_ones(k: Any) -> None:
    empty = np.lib.stride_tricks.as_strided(np.zeros(1), (0, 3), (3, 7))
    assert k.scale(empty, 2.0).shape == (0, 3)
    shifted = np.zeros(17, np.uint8)[1:].view(np.float32)
    for _ in range(2):
        np.testing.assert_array_equal(k.add(shifted, shifted), np.zeros(4))
        k.add(np.ones(4, np.float32), np.ones(4, np.float32), out=shifted)
        np.testing.assert_array_equal(shifted, np.full(4, 2))
        shifted[:] = 0


# ---- torch

torch_too = pytest.mark.torch


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


@torch_too
def test_tensors_are_read_without_python(torch: Any, k: Any) -> None:
    a, b, out = torch.arange(5.0), torch.ones(10)[::2], torch.empty(5)
    first = k.add(a, b)
    slow = type(k.add)._call_slowly
    calls: list[Any] = []
    assert slow is not None
    again, profile = [], sys.getprofile()
    k.add(a, b, out=out)
    sys.setprofile(
        lambda frame, event, arg: calls.append(frame.f_code) if event == "call" else None
    )
    try:
        again.append(k.add(a, b))
        k.add(a, b, out=out)
    finally:
        sys.setprofile(profile)
    assert slow.__code__ not in calls
    assert type(again[0]) is torch.Tensor
    for got in (first, again[0], out):
        assert torch.equal(got, a + b)
    k.both(a, b)
    d = k.both(a, b).D
    assert torch.equal(d, a - b)
    assert type(k.add(a.numpy(), b)) is np.ndarray
    assert type(k.add(a.numpy(), b)) is np.ndarray
    assert type(k.add(a, b.numpy())) is torch.Tensor
    assert type(k.add(a, b.numpy())) is torch.Tensor


@torch_too
@sampled("name", [d.name for d in ALL], keep=4)
def test_every_type_of_tensor(torch: Any, name: str) -> None:
    copy: Any = tc.define("def copy<T>(T(N,M) A) -> (B) { B(i, j) = A(i, j) }", tune="off")
    a = torch.arange(6).reshape(2, 3).to(getattr(torch, name)).T
    for _ in range(3):
        got = copy(a)
        assert got.dtype == a.dtype
        assert torch.equal(got, a)


@torch_too
def test_numbers_in_tensors(torch: Any, k: Any) -> None:
    a = torch.arange(12.0).reshape(3, 4)
    for s in (torch.tensor(2.0), torch.tensor(2.0, dtype=torch.float64), torch.tensor(2)):
        for _ in range(3):
            assert torch.equal(k.scale(a, s), 2 * a)
    for _ in range(2):
        for n in (0, 3, 5):
            assert k.first(a.reshape(-1), torch.tensor(n)) == n * (n - 1) / 2
    for n in (13, -1, 2**40):
        with pytest.raises(tc.TCError):
            k.first(a.reshape(-1), torch.tensor(n))
    many: Any = tc.define(
        "def many(bool a, uint8 b, int64 c, float16 d, bfloat16 e, float f, double g, float(N) A)"
        " -> (double(7) O) { O(i) = i == 0 ? double(a) : i == 1 ? double(b) : i == 2 ? double(c) : "
        "i == 3 ? double(d) : i == 4 ? double(e) : i == 5 ? double(f) : g }",
        tune="off",
    )
    values = (True, 200, -(2**53), 0.1, 0.1, 0.1, 0.1)
    types = (torch.bool, torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.float32)
    tensors = [
        torch.tensor(v, dtype=t) for v, t in zip(values, (*types, torch.float64), strict=True)
    ]
    for _ in range(3):
        assert many(*tensors, torch.ones(2)).tolist() == [float(t) for t in tensors]
    halves = [torch.tensor(v, dtype=torch.float16) for v in (6e-8, -2.5, torch.inf, -0.0, 65504.0)]
    for h in halves:
        assert many(*tensors[:3], h, *tensors[4:], torch.ones(2))[3] == h.double()
    with pytest.raises(tc.TCError, match="'b'"):
        many(True, torch.tensor(256), *tensors[2:], torch.ones(2))


@torch_too
def test_the_negative_bit_is_read_and_not_written(torch: Any, k: Any) -> None:
    plain = torch.tensor([1.0, 2.0])
    view = torch.tensor([1 + 2j, 3 - 4j]).conj().imag
    expected = view.resolve_neg() + plain
    for _ in range(3):
        assert torch.equal(k.add(plain, plain), 2 * plain)  # the same form is known
        assert torch.equal(k.add(view, plain), expected)
        with pytest.raises(TCTypeError, match=r"'C' is a view that negates.*\n.*C.copy_\(buffer\)"):
            k.add(plain, plain, out=view)
    with pytest.raises(TCTypeError, match="type complex64, which the language does not have"):
        k.add(torch.tensor([1j, 2j]).conj(), plain)


@torch_too
def test_training_does_not_stop_in_silence(torch: Any, k: Any) -> None:
    x, w = torch.ones(3), torch.nn.Parameter(torch.full((3,), 2.0))
    for _ in range(3):
        assert torch.equal(k.add(x, x), 2 * x)
        with pytest.raises(TCTypeError, match="requires grad") as error:
            k.add(x, w)
        with pytest.raises(TCTypeError, match="requires grad"):
            k.add(x, x, out=w)
        with torch.no_grad():
            assert torch.equal(k.add(x, w), x + w)
        with torch.inference_mode():
            assert torch.equal(k.add(x, w), x + w)
    assert str(error.value) == (
        "argument 'B' requires grad, and torch would not see this call: training would stop here\n"
        "  define the kernel by tcdsl.torch.define, whose calls autograd sees; or call it under "
        "torch.no_grad(),\n  where no gradient is wanted"
    )


@torch_too
def test_the_cure_for_training_trains(torch: Any) -> None:
    text = "def square(float(N) x) -> (y) { y(i) = x(i) * x(i) }"
    square: Any = tc.define(text, tune="off")

    class Square(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y, ctx.pull = square.vjp(x)
            return y

        @staticmethod
        def backward(ctx: Any, d_y: Any) -> Any:
            return ctx.pull(d_y)

    from tcdsl.torch import define

    for kernel in (define(text, tune="off"), Square.apply):
        x = torch.tensor([1.0, -3.0], requires_grad=True)
        kernel(x).sum().backward()
        assert x.grad is not None
        assert x.grad.tolist() == [2, -6]


@torch_too
def test_torch_hears_of_what_a_call_writes(torch: Any, k: Any) -> None:
    for _ in range(3):
        x = torch.ones(3)
        w = torch.ones(3, requires_grad=True)
        y = (w * x).sum()
        k.add(torch.ones(3), torch.ones(3), out=x)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.backward()


@torch_too
@pytest.mark.wide
def test_tensors_that_are_no_memory(torch: Any, k: Any) -> None:
    a = torch.ones(3)
    with torch._subclasses.fake_tensor.FakeTensorMode():
        fake = torch.ones(3)
    gone = torch.ones(3)
    gone.untyped_storage().resize_(0)
    bad: list[tuple[Any, str]] = [
        (fake, "FakeTensor, a tensor that stands for another"),
        (torch.ones(3).to_sparse(), r"layout torch.sparse_coo\n  pass A.to_dense"),
        (torch.ones(3, device="meta"), "gives no memory"),
        (gone, "no memory: its address is 0"),
    ]
    for _ in range(2):
        assert torch.equal(k.add(a, a), 2 * a)
        for x, text in bad:
            with pytest.raises(TCTypeError, match=text):
                k.add(x, a)
    zero = torch._efficientzerotensor(3)
    assert torch.equal(k.add(zero, a), a)
    with pytest.raises(TCTypeError, match=r"without memory.*\n  give torch.zeros"):
        k.add(a, a, out=zero)
    tiny = torch.ones(3).to(torch.float8_e4m3fn)
    with pytest.raises(TCTypeError, match=r"gives no memory: Unsupported dtype in DLTensor.$"):
        k.add(a, a, out=tiny)


@torch_too
def test_transforms_of_torch_are_not_fooled(torch: Any, k: Any) -> None:
    forward_ad = torch.autograd.forward_ad
    a = torch.ones(3)
    k.add(a, a)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.ones(3), torch.ones(3))
        with pytest.raises(TCTypeError, match="inside a transform of torch"):
            k.add(dual, a)
        assert torch.equal(k.add(a, a), 2 * a)
    for transform in (
        torch.func.grad(lambda x: k.add(x, a).sum()),
        torch.func.vmap(lambda x: k.add(x, a)),
    ):
        with pytest.raises(TCTypeError, match=r"requires grad|inside a transform"):
            transform(torch.ones(3) if "grad" in repr(transform) else torch.ones(2, 3))


@torch_too
def test_results_may_die_anywhere(torch: Any, k: Any) -> None:
    a = torch.ones(1000)
    held = [k.add(a, a) for _ in range(50)]
    views = [h[3:7].clone() + h[3:7] for h in held]

    def drop() -> None:
        while held:
            held.pop()

    threads = [threading.Thread(target=drop) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(torch.equal(v, torch.full((4,), 4.0)) for v in views)
    x = torch.ones(5, requires_grad=True)
    with torch.no_grad():
        c = k.add(torch.ones(5), torch.ones(5))
        c = k.add(c, c)
    (x * c).sum().backward()  # the engine's thread may drop it
    assert x.grad is not None
    assert x.grad.tolist() == [4] * 5


@torch_too
def test_a_subclass_of_a_tensor_is_taken(torch: Any, k: Any) -> None:
    class Sub(torch.Tensor):  # type: ignore[misc]
        pass

    a = torch.ones(3).as_subclass(Sub)
    for _ in range(3):
        got = k.add(a, torch.ones(3))
        assert isinstance(got, torch.Tensor)
        assert got.tolist() == [2, 2, 2]


@torch_too
def test_like_gives_a_tensor_for_a_tensor(torch: Any) -> None:
    array = np.ones(3, ml_dtypes.bfloat16)
    back = like(torch.ones(1))(array)
    assert back.dtype == torch.bfloat16
