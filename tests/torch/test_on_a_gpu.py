"""Calls on tensors of a real GPU: streams, memory, graphs, gradients."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
tct: Any = pytest.importorskip("tcdsl.torch")
if not torch.cuda.is_available():
    pytest.skip("this torch has no CUDA", allow_module_level=True)

pytestmark = [pytest.mark.torch, pytest.mark.gpu]

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }"
INC = "def inc(float(N) A) -> (B) { B(i) = A(i) + 1 }"


def test_a_call_comes_after_what_torchs_stream_was_given() -> None:
    k, x = tct.define(INC, tune="off"), torch.zeros(1 << 20, device="cuda")
    k(x)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    for turn in range(20):
        with torch.cuda.stream(side):
            torch.cuda._sleep(1_000_000)
            x.fill_(turn)
            y = k(x)
            z = y * 2
        side.synchronize()
        assert z.eq(2 * (turn + 1)).all()


def test_outputs_are_of_torchs_allocator() -> None:
    k, x = tct.define(INC, tune="off"), torch.zeros(1 << 20, device="cuda")
    k(x)
    before = torch.cuda.memory_allocated()
    y = k(x)
    assert torch.cuda.memory_allocated() == before + y.numel() * 4
    assert y.untyped_storage().resizable()
    del y
    assert torch.cuda.memory_allocated() == before


def test_a_graph_captures_calls() -> None:
    k = tct.define(MM, tune="off")
    a, b = torch.rand(33, 20, device="cuda"), torch.rand(20, 17, device="cuda")
    k(a, b)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        c = k(a, b)
    for _ in range(3):
        a.uniform_()
        graph.replay()
        torch.testing.assert_close(c, (a.double() @ b.double()).float())


def test_gradients_on_a_stream_of_their_own() -> None:
    k = tct.define(MM, tune="off")
    a, b = (torch.rand(*s, device="cuda", requires_grad=True) for s in ((33, 20), (20, 17)))
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        k(a, b).sum().backward()
    torch.cuda.current_stream().wait_stream(side)
    torch.testing.assert_close(a.grad, b.detach().sum(1).expand(33, 20))
    torch.testing.assert_close(b.grad, a.detach().sum(0)[:, None].expand(20, 17))
