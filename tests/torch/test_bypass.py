"""Calls on plain tensors: the launcher runs them, but where torch looks on."""

from __future__ import annotations

import gc
import weakref
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest

from tests.tiers import sampled

torch = pytest.importorskip("torch")
tct: Any = pytest.importorskip("tcdsl.torch")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

import tcdsl as tc  # noqa: E402 - torch may be missing
from tcdsl.codegen import runtime  # noqa: E402
from tcdsl.grammar.text.errors import TCError, TCTypeError  # noqa: E402
from tcdsl.torch import operator, transforms  # noqa: E402

# With the bridge and without it calls mean the same, and go the same way.
pytestmark = [pytest.mark.torch, pytest.mark.cc, pytest.mark.usefixtures("way")]

MUL = "def mul<T>(T(N,M) a, T(N,M) b) -> (y) { y(n, m) = a(n, m) * b(n, m) }"
MOMENTS = "def moments(float(N,M) x) -> (s, q) { s(n) +=! x(n, m)  q(n) +=! x(n, m) * x(n, m) }"


class Watched:
    """A kernel that counts which of its calls Python saw."""

    def __init__(self, text: str, monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
        self.slow = 0
        real = tct.Kernel._call_slowly

        def counted(kernel: Any, *args: Any, **keywords: Any) -> Any:
            self.slow += kernel is self.kernel
            return real(kernel, *args, **keywords)

        monkeypatch.setattr(tct.Kernel, "_call_slowly", counted)
        self.kernel = tct.define(text, **options)

    def is_fast(self, *args: Any, **keywords: Any) -> bool:
        """Call twice; return whether the second call did not enter Python."""
        self.kernel(*args, **keywords)
        slow, calls = self.slow, self.kernel.calls
        self.kernel(*args, **keywords)
        return self.slow == slow and self.kernel.calls == calls + 1


@pytest.fixture
def mul(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(MUL, monkeypatch)


def ones(*shape: int, **options: Any) -> Any:
    return torch.ones(*shape, **options)


def test_plain_tensors_and_parameters_do_not_enter_python(mul: Watched) -> None:
    x, p = ones(2, 3), torch.nn.Parameter(ones(2, 3))
    frozen = torch.nn.Parameter(ones(2, 3), requires_grad=False)
    assert mul.is_fast(x, x)
    assert mul.is_fast(x, x, out=torch.empty(2, 3))
    assert mul.is_fast(frozen, x)
    with torch.no_grad():
        assert mul.is_fast(p, x)
        assert mul.is_fast(x, p, out=torch.empty(2, 3))
        assert mul.is_fast(p, p, out=torch.nn.Parameter(torch.empty(2, 3)))
    with torch.inference_mode():
        assert mul.is_fast(x, p)
        assert mul.is_fast(ones(2, 3), ones(2, 3), out=torch.empty(2, 3))
    assert mul.is_fast(ones(3, 2).t(), ones(4, 6)[::2, ::2])


class FunctionMode(torch.overrides.TorchFunctionMode):  # type: ignore[misc, name-defined]
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("mode", [FunctionMode, lambda: torch.device("cpu")], ids=["own", "device"])
def test_function_modes_see_calls_of_known_forms(mul: Watched, mode: Any) -> None:
    x = ones(2, 3)
    assert mul.is_fast(x, x)
    entered: AbstractContextManager[Any] = mode()
    slow = mul.slow
    with entered:
        torch.testing.assert_close(mul.kernel(x, x), x)
    assert mul.slow > slow
    assert mul.is_fast(x, x)


def test_forward_mode_and_transforms_see_calls_of_known_forms(
    mul: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def called(of: Any, given: Any) -> Any:
        seen.append(of)
        return given.values[0]

    monkeypatch.setattr(transforms, "call", called)
    x = ones(2, 3)
    assert mul.is_fast(x, x)
    with torch.autograd.forward_ad.dual_level():
        mul.kernel(x, x)
    assert len(seen) == 1
    torch.func.vmap(lambda a: mul.kernel(x, x) + a)(x[:, 0])  # none of its own is mapped
    assert len(seen) == 2
    torch.func.functionalize(lambda a: mul.kernel(a, x))(x)
    assert len(seen) == 3
    assert mul.is_fast(x, x)


def test_dispatch_modes_and_traces_see_calls_of_known_forms(
    mul: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def called(of: Any, given: Any) -> Any:
        seen.append(of)
        return given.values[0]

    monkeypatch.setattr(operator, "call", called)
    x = ones(2, 3)
    assert mul.is_fast(x, x)
    mode: Any = TorchDispatchMode
    with mode():
        mul.kernel(x, x)
    assert len(seen) == 1
    torch.jit.trace(lambda a: mul.kernel(a, a), x, check_trace=False)
    assert len(seen) == 2
    assert mul.is_fast(x, x)


def test_tensors_that_need_grad_are_seen(mul: Watched) -> None:
    x = ones(2, 3)
    assert mul.is_fast(x, x)
    assert not mul.is_fast(x, ones(2, 3, requires_grad=True))
    assert mul.kernel(x, ones(2, 3, requires_grad=True)).requires_grad
    with pytest.raises(TCTypeError, match="out= does not support automatic differentiation"):
        mul.kernel(x, x, out=ones(2, 3, requires_grad=True))


def test_autocast_matters_to_kernels_that_have_a_policy_for_it(
    mul: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = ones(2, 3)
    lower = Watched(MUL, monkeypatch, autocast="lower")
    assert lower.is_fast(x, x)
    with torch.autocast("cpu", torch.bfloat16):
        assert not lower.is_fast(x, x)
        assert lower.kernel(x, x).dtype == torch.bfloat16
        assert mul.is_fast(x, x)


def test_negated_tensors_are_resolved_and_refused_as_outputs(mul: Watched) -> None:
    x, negated = ones(2, 3), torch._neg_view(ones(2, 3))
    assert mul.is_fast(x, x, out=torch.empty(2, 3))
    torch.testing.assert_close(mul.kernel(negated, x), -x)
    with pytest.raises(TCTypeError, match="negates what is written"):
        mul.kernel(x, x, out=torch._neg_view(torch.empty(2, 3)))


def test_fresh_outputs_are_torchs_own_memory(mul: Watched) -> None:
    x = ones(2, 3)
    for _ in range(3):  # the first call is Python's
        y = mul.kernel(x, x)
        assert y.is_contiguous()
        y.resize_(5, 7)
        assert y.shape == (5, 7)
    y = mul.kernel(x, x).share_memory_()
    assert y.is_shared()
    s, q = tct.define(MOMENTS)(x)
    assert (s.resize_(9).shape, q.shape) == ((9,), (2,))
    empty = mul.kernel(ones(0, 3), ones(0, 3))
    assert empty.shape == (0, 3)


@sampled("name", ["float16", "bfloat16", "float64", "int8", "uint8", "int64"], keep=2)
def test_fresh_outputs_have_the_type_of_the_text(mul: Watched, name: str) -> None:
    x = ones(2, 3, dtype=getattr(torch, name))
    for _ in range(3):
        assert mul.kernel(x, x).dtype == x.dtype
        torch.testing.assert_close(mul.kernel(x, x), x)


@pytest.mark.wide
def test_large_outputs_are_blocks_that_are_used_again(mul: Watched) -> None:
    x = ones(2048, 4096)
    mul.kernel(x, x)
    live = runtime.memory()[0]
    y = mul.kernel(x, x)
    assert runtime.memory()[0] >= live + y.nbytes
    del y
    assert runtime.memory()[0] == live


def test_outputs_given_are_checked_and_their_version_rises(mul: Watched) -> None:
    x, out = ones(2, 3), torch.empty(2, 3)
    for _ in range(3):
        version = out._version
        assert mul.kernel(x, x, out=out) is out
        assert out._version == version + 1
    for wrong in (torch.empty(3, 2), torch.empty(2, 3).double(), torch.empty(2, 1).expand(2, 3)):
        with pytest.raises(TCError):
            mul.kernel(x, x, out=wrong)
    with torch.inference_mode():
        inference = torch.empty(2, 3)
        for _ in range(3):
            mul.kernel(x, x, out=inference)
    torch.testing.assert_close(inference.clone(), x)


def test_a_saved_tensor_that_a_kernel_writes_to_is_noticed(mul: Watched) -> None:
    x, out = ones(2, 3, requires_grad=True), ones(2, 3)
    mul.kernel(x.detach(), x.detach(), out=out)
    y = (x * out).sum()
    mul.kernel(x.detach(), x.detach(), out=out)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_an_output_that_overlaps_an_input_is_right(mul: Watched) -> None:
    memory = torch.arange(12.0)
    for _ in range(3):
        a, out = memory[:6].view(2, 3), memory[3:9].view(2, 3)
        expected = a * a
        mul.kernel(a, a, out=out)
        torch.testing.assert_close(out, expected)
        memory = torch.arange(12.0)


def test_lazy_clones_that_are_written_to_get_memory_of_their_own(mul: Watched) -> None:
    x = torch.full((2, 3), 2.0)
    mul.kernel(x, x, out=torch.empty(2, 3))
    twin = torch._lazy_clone(x)
    mul.kernel(x, x, out=twin)
    torch.testing.assert_close(x, torch.full((2, 3), 2.0))
    torch.testing.assert_close(twin, torch.full((2, 3), 4.0))


def test_kernels_use_no_more_threads_than_torch_does(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    kernel = tct.define(MOMENTS)
    real = kernel.max_threads
    assert real is torch.get_num_threads

    def told() -> int:
        seen.append(real())
        return seen[-1]

    kernel.max_threads = told
    before, x = torch.get_num_threads(), torch.randn(64, 1024)
    expected = x.double().sum(1).float()
    try:
        for n in (1, 2, 1):
            torch.set_num_threads(n)
            torch.testing.assert_close(kernel(x).s, expected, rtol=1e-4, atol=1e-4)
            assert seen[-1] == n
    finally:
        torch.set_num_threads(before)
    assert tct.define(MOMENTS, threads=2).max_threads is None
    assert tc.define(MOMENTS).max_threads is None


def test_plain_kernels_take_tensors_the_same_way() -> None:
    kernel, x = tc.define(MOMENTS), ones(2, 3)
    kernel(x)
    calls = kernel.calls
    s, _ = kernel(x)
    assert kernel.calls == calls + 1
    assert type(s) is torch.Tensor
    assert type(kernel(np.ones((2, 3), np.float32)).s) is np.ndarray


def test_recorded_calls_on_plain_tensors_are_not_looked_at_twice(mul: Watched) -> None:
    x, w = ones(2, 3), torch.nn.Parameter(ones(2, 3))
    mul.kernel(x, w)
    slow = mul.slow
    y = mul.kernel(x, w)
    assert mul.slow == slow
    y.sum().backward()
    torch.testing.assert_close(w.grad, x)
    derivative = mul.kernel.derivatives.of((x, w), {}, (False, True))
    calls = derivative.forward.calls, derivative.backward.calls
    mul.kernel(x, w).sum().backward()
    assert (derivative.forward.calls, derivative.backward.calls) == (calls[0] + 1, calls[1] + 1)
    with torch.autocast("cpu", torch.bfloat16):  # arguments may have to be cast
        mul.kernel(x, w)
    assert mul.slow == slow + 1
    mul.kernel(x.numpy(), w)
    assert mul.slow == slow + 2


def test_the_launcher_keeps_no_kernel_alive() -> None:
    kernel, x = tct.define(MUL), ones(2, 3)
    kernel(x, torch.nn.Parameter(x)).sum().backward()
    gone = weakref.ref(kernel)
    del kernel
    gc.collect()
    assert gone() is None


def test_generics_by_keyword_do_not_enter_python(monkeypatch: pytest.MonkeyPatch) -> None:
    every = Watched("def every<S=2>(float(N) x) -> (y) { y(i) = x(S * i) }", monkeypatch)
    x, p = torch.arange(6.0), torch.nn.Parameter(torch.arange(6.0))
    assert every.is_fast(x, S=3)
    assert every.is_fast(x=x, S=1)
    assert every.is_fast(x, S=3, out=torch.empty(2))
    assert every.kernel(x, S=3).tolist() == [0, 3]
    assert every.kernel(x).tolist() == [0, 2, 4]
    with torch.no_grad():
        assert every.is_fast(p, S=3)
    with torch.device("cpu"):  # a mode, which sees calls of known forms
        assert not every.is_fast(x, S=3)
    slow = every.slow
    for step in (3, 2, 3):  # recorded, by a way of their own
        p.grad = None
        every.kernel(p, S=step).sum().backward()
        assert p.grad.tolist() == [float(i % step == 0) for i in range(6)]
    assert every.slow == slow
    every.kernel(p, S=torch.tensor(2)).sum().backward()  # as Python has it
    every.kernel(x=p, S=2).sum().backward()
    assert every.slow == slow + 2
    with pytest.raises(TCTypeError, match="out= does not support automatic differentiation"):
        every.kernel(p, S=2, out=torch.empty(3))
    with pytest.raises(TCTypeError, match="expected an integer for generic 'S'"):
        every.kernel(p, S=1.5)
