"""The bridge: what it takes for a plain tensor, and what happens where there is none."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading
import weakref
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch")
tct: Any = pytest.importorskip("tcdsl.torch")

from tcdsl.codegen import runtime  # noqa: E402 - torch may be missing
from tcdsl.codegen.toolchain import cachedir  # noqa: E402 - torch may be missing
from tcdsl.codegen.toolchain.cc import find_compiler  # noqa: E402
from tcdsl.grammar.text.errors import CompileError  # noqa: E402
from tcdsl.tools.doctor import examine_torch  # noqa: E402
from tcdsl.torch import native  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.cc]

DOUBLE = "def dbl(float(N) x) -> (y) { y(i) = x(i) + x(i) }"


@pytest.mark.wide
def test_calls_ask_the_bridge_while_they_use_it(bridge: ModuleType) -> None:
    kernel, x = tct.define(DOUBLE), torch.ones(7)
    kernel(x)

    def asked() -> int:
        before, calls = runtime.bridged(), kernel.calls
        kernel(x)
        assert kernel.calls == calls + 1
        return runtime.bridged() - before

    assert asked() == 0
    native.use(bridge)
    try:
        assert asked() == 1
        assert native.apply is bridge.apply
    finally:
        native.use(None)
    assert asked() == 0


@pytest.mark.wide
@pytest.mark.parametrize(
    ("name", "code", "bits"),
    [
        *(("bool", 6, 8), ("int8", 0, 8), ("uint8", 1, 8), ("int16", 0, 16), ("uint16", 1, 16)),
        *(("int32", 0, 32), ("uint32", 1, 32), ("int64", 0, 64), ("uint64", 1, 64)),
        *(("float16", 2, 16), ("bfloat16", 4, 16), ("float32", 2, 32), ("float64", 2, 64)),
    ],
)
def test_a_plain_tensor_is_its_address_form_and_type(
    bridge: ModuleType, name: str, code: int, bits: int
) -> None:
    for x in (torch.zeros(5, 3, dtype=getattr(torch, name)), torch.zeros((), dtype=torch.float32)):
        for view in (x, x.t(), x[::2] if x.ndim else x, x[:0] if x.ndim else x):
            kind = (code, bits) if x.ndim else (2, 32)
            expected = (view.data_ptr(), tuple(view.shape), tuple(view.stride()), *kind)
            assert bridge.seen(view, True) == expected


@pytest.mark.wide
def test_what_is_more_than_its_memory_is_not_read(bridge: ModuleType) -> None:
    x = torch.ones(4)
    emptied = torch.ones(4)
    emptied.untyped_storage().resize_(0)
    wrapped: list[Any] = []

    def keep(a: Any) -> Any:
        wrapped.append(a)
        return a

    torch.func.vmap(keep)(torch.ones(2, 3))
    torch.func.functionalize(keep)(x)
    others = [
        torch._neg_view(x), torch.ones(4, dtype=torch.complex64), torch._efficientzerotensor((4,)),
        torch.eye(2).to_sparse(), torch.ones(4, device="meta"),
        *wrapped,
    ]  # fmt: skip
    assert [o for o in others if bridge.seen(o, False) is not None] == []
    address, *_ = bridge.seen(emptied, False)
    assert address == 0  # which the launcher refuses
    tracked = x.clone().requires_grad_()
    assert bridge.seen(tracked, True) is None
    assert bridge.seen(tracked, False)[0] == tracked.data_ptr()
    twin = torch._lazy_clone(x)
    assert bridge.seen(twin, False)[0] != bridge.seen(x, False)[0]


@pytest.mark.wide
def test_a_bridge_for_another_launcher_is_refused(bridge: ModuleType) -> None:
    tct.define(DOUBLE)(torch.ones(3))
    name, other = ctypes.create_string_buffer(b"tcdsl.bridge"), ctypes.create_string_buffer(64)
    other[0] = b"\x63"  # the number of its ABI
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = (
        ctypes.py_object,
        [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p],
    )
    capsule = new(ctypes.addressof(other), ctypes.addressof(name), None)
    assert runtime.bridge(torch.Tensor, capsule) == 0
    assert runtime.bridge(torch.Tensor, bridge.bridge) == 1
    assert runtime.bridge(torch.Tensor, None) == 1
    assert runtime.bridge(list, bridge.bridge) == 0
    with pytest.raises(ValueError, match="PyCapsule"):
        runtime.bridge(torch.Tensor, torch.Tensor.__dlpack_c_exchange_api__)


class Gives(torch.autograd.Function):  # type: ignore[misc, name-defined]
    """Whatever a callable gives."""

    @staticmethod
    def forward(_ctx: Any, x: Any, give: Any) -> Any:
        return give(x)

    @staticmethod
    def backward(_ctx: Any, *adjoints: Any) -> Any:
        return adjoints[0], None


@pytest.mark.wide
def test_a_recorded_call_is_a_node_of_torchs(bridge: ModuleType) -> None:
    x = torch.ones(3, requires_grad=True)
    y = bridge.apply(Gives, x, lambda x: 2 * x)
    assert type(y.grad_fn) is type(Gives.apply(x, lambda x: 2 * x).grad_fn)
    assert y.grad_fn.needs_input_grad == (True, False)
    assert y.grad_fn.next_functions[0][0].variable is x
    y.sum().backward()
    assert x.grad.tolist() == [1, 1, 1]
    y, z = bridge.apply(Gives, x, lambda x: (2 * x, 3 * x))
    assert (y.output_nr, z.output_nr) == (0, 1)
    with torch.no_grad():
        assert bridge.apply(Gives, x, lambda x: 2 * x).grad_fn is None
    assert bridge.apply(Gives, x.detach(), lambda x: 2 * x).grad_fn is None
    gone = weakref.ref(y.grad_fn)
    del y, z
    gc.collect()
    assert gone() is None


@pytest.mark.wide
def test_what_a_recorded_call_gives_is_new(bridge: ModuleType) -> None:
    x = torch.ones(3, requires_grad=True)
    old = ones = torch.ones(3)
    others = (lambda x: x, lambda x: x[:1], lambda x: (2 * x, x), lambda _: (old, ones))
    for give in others[:3]:
        with pytest.raises(RuntimeError, match="gives new tensors"):
            bridge.apply(Gives, x, give)
    with pytest.raises(RuntimeError, match="gives new tensors"):
        bridge.apply(Gives, x, others[3])
    with pytest.raises(TypeError, match="gives tensors"):
        bridge.apply(Gives, x, lambda _: 3)
    for wrong in ((), (3,), (int, x)):
        with pytest.raises((TypeError, AttributeError)):
            bridge.apply(*wrong)
    with pytest.raises(ZeroDivisionError):
        bridge.apply(Gives, x, lambda _: 1 // 0)
    assert torch.is_grad_enabled()


@pytest.mark.wide
@pytest.mark.usefixtures("way")
def test_compiled_autograd_takes_recorded_calls() -> None:
    from torch._dynamo import compiled_autograd

    kernel = tct.define("def square(float(N) x) -> (y) { y(i) = x(i) * x(i) }")
    for n in (3, 4, 3):
        x = torch.randn(n, requires_grad=True)
        with compiled_autograd._enable(lambda graph: graph):
            kernel(x).sum().backward()
        torch.testing.assert_close(x.grad, 2 * x.detach())


def begun(monkeypatch: pytest.MonkeyPatch, cache: Path) -> native.Bridge:
    """Return a bridge that may begin, with an empty cache."""
    find_compiler()  # known before, else it is asked of the other cache
    monkeypatch.setenv("TCDSL_TORCH_BRIDGE", "1")
    monkeypatch.setenv("TCDSL_CACHE", str(cache))
    return native.Bridge()


def test_it_may_be_left_away(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    left = begun(monkeypatch, tmp_path)
    monkeypatch.setenv("TCDSL_TORCH_BRIDGE", "0")
    assert not left.wait(None)
    assert left.why == "TCDSL_TORCH_BRIDGE is 0"


def test_what_failed_is_tried_again_after_an_hour_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    attempts: list[str] = []

    def fails(source: Any) -> str:
        attempts.append(source.name)
        return "no cc1plus"

    monkeypatch.setattr(native, "compile_aside", fails)
    for _ in range(3):
        failed = begun(monkeypatch, tmp_path)
        assert not failed.wait(None)
        assert failed.why == "no cc1plus"
    assert len(attempts) == 1
    (finding,) = examine_torch()
    assert finding.state == "note"
    assert "no cc1plus" in finding.value
    (known,) = cachedir.read_json(native.FACTS).values()
    cachedir.update_json(native.FACTS, {torch.__version__: known | {"at": known["at"] - 3601}})
    assert not begun(monkeypatch, tmp_path).wait(None)
    cachedir.update_json(native.FACTS, {torch.__version__: known | {"key": "of an older one"}})
    assert not begun(monkeypatch, tmp_path).wait(None)
    assert len(attempts) == 3


@pytest.mark.parametrize("why", ["a stand-in", "not to be written", "no room", "a signal"])
def test_what_is_so_at_this_moment_only_is_not_remembered(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, why: str
) -> None:
    def must_not(_source: Any) -> str:
        if why == "a signal":
            raise InterruptedError("a signal ended its compilation: 9")
        raise AssertionError("each process would compile it")

    monkeypatch.setattr(native, "compile_aside", must_not)
    failed = begun(monkeypatch, tmp_path)
    with monkeypatch.context() as patch:
        if why == "a stand-in":
            patch.setattr(cachedir._stand_in, "here", lambda: tmp_path)
        if why == "not to be written":
            patch.setattr(os, "access", lambda path, _mode: path != tmp_path)
        if why == "no room":
            patch.setattr(cachedir, "lacks_room", lambda _: True)
        assert not failed.wait(None)
        if why == "a signal":
            assert why in failed.why
        else:
            assert failed.why.startswith("the cache folder cannot keep it")
            (finding,) = examine_torch()
            assert "cache folder cannot keep" in finding.value
    assert cachedir.read_json(native.FACTS) == {}


def test_where_it_cannot_be_made_the_reason_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(native, "python_headers", lambda: tmp_path)
    made = begun(monkeypatch, tmp_path)
    assert not made.wait(None)
    assert made.why == f"there is no '{tmp_path / 'Python.h'}'"
    (finding,) = examine_torch()
    assert made.why in finding.value
    monkeypatch.undo()

    class Zig:
        kind = "zig"

    monkeypatch.setattr(native, "find_compiler", Zig)
    monkeypatch.setattr(sys, "platform", "linux")
    with pytest.raises(CompileError, match="whose C\\+\\+ library is not the one"):
        native.source()


@pytest.mark.wide
def test_an_object_that_does_not_load_is_left(
    bridge: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(native, "_object_of", lambda *_: Path(str(bridge.__file__)))

    class Wrong:
        @staticmethod
        def seen(x: Any, _tracks: bool) -> Any:
            return (x.data_ptr() + 8, tuple(x.shape), tuple(x.stride()), 2, 64)

    def wrong(_name: str, _path: Path) -> Any:
        return Wrong

    def undefined(_name: str, _path: Path) -> Any:
        raise ImportError("undefined symbol: _ZN2at")

    for loaded, why in ((wrong, "are not those of this torch"), (undefined, "_ZN2at")):
        monkeypatch.setattr(native, "extension_at", loaded)
        made = begun(monkeypatch, tmp_path)
        assert not made.wait(None)
        assert why in made.why
        (finding,) = examine_torch()
        assert why in finding.value
    monkeypatch.undo()
    monkeypatch.setenv("TCDSL_TORCH_BRIDGE", "1")
    made = native.Bridge()
    assert made.wait(None)  # what was remembered of another cache is no matter here
    native.use(None)


def test_calls_go_on_while_it_is_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    may_end = threading.Event()

    def waits(_source: Any) -> str:
        may_end.wait(60)
        return "it failed"

    made = begun(monkeypatch, tmp_path)
    monkeypatch.setattr(native, "compile_aside", waits)
    monkeypatch.setattr(native, "begin", made.begin)
    kernel = tct.define(DOUBLE)
    assert kernel(torch.ones(3)).tolist() == [2, 2, 2]
    assert made.why == "it is being compiled"
    assert not made.wait(0)
    child = os.fork()
    if not child:  # its parent's thread does not run here
        made.after_fork()
        os._exit(made.begun)
    assert os.waitpid(child, 0)[1] == 0
    may_end.set()
    assert not made.wait(None)
    assert made.why == "it failed"
    assert kernel(torch.ones(3)).tolist() == [2, 2, 2]


def test_doctor_tells_how_it_stands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TCDSL_CACHE", str(tmp_path))
    monkeypatch.setenv("TCDSL_TORCH_BRIDGE", "1")
    (finding,) = examine_torch()
    assert finding.state == "note"
    assert "not compiled yet" in finding.value
    version = torch.__version__
    cachedir.update_json(native.FACTS, {version: {"key": "k", "error": "", "at": 1.5}})
    (finding,) = examine_torch()
    assert (finding.name, finding.state) == ("torch", "ok")
    assert finding.value == f"{version}, calls by its own headers"
    monkeypatch.setenv("TCDSL_TORCH_BRIDGE", "0")
    (finding,) = examine_torch()
    assert "TCDSL_TORCH_BRIDGE is 0" in finding.value
