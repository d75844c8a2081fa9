"""Tensors and recorded calls: values and gradients as torch has them, versions, errors."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl import library
from tcdsl.core import Tensor, backward, from_numpy, retyped, set_grad_enabled
from tests.tcdsl.core.few import (
    array,
    e_to,
    halves,
    matmul,
    no_grad,
    normed,
    plus,
    plus_,
    ramp,
    ramp_,
    tensor,
    times,
    times_,
    total,
)  # fmt: skip
from tests.tiers import sampled

pytestmark = pytest.mark.cc


class Torch:
    """The same few ops of torch."""

    def __init__(self, torch: Any) -> None:
        self.plus, self.times, self.total, self.e_to = torch.add, torch.mul, torch.sum, torch.exp
        self.matmul, self.ramp = torch.mm, torch.relu
        self.plus_, self.times_ = torch.Tensor.add_, torch.Tensor.mul_
        self.ramp_ = torch.relu_


class Ours:
    plus, times, total, e_to, matmul, ramp = (
        staticmethod(f) for f in (plus, times, total, e_to, matmul, ramp)
    )
    plus_, times_, ramp_ = (staticmethod(f) for f in (plus_, times_, ramp_))


def _into_a_row(f: Any, x: Any, y: Any) -> Any:
    z = f.times(x, 1.0)
    row = z.select(1, 1)
    f.times_(row, y.select(1, 0).detach())
    f.plus_(row, y.select(1, 1))
    return f.times(z, row.unsqueeze(1))


def _into_what_was_not_recorded(f: Any, x: Any, y: Any) -> Any:
    z = f.times(y, 0.0).detach()
    view = z.transpose(0, 1)
    f.plus_(z.select(0, 0), x.select(0, 1))
    return f.times(f.times(y, z), view.select(1, 0))


def _in_place(f: Any, x: Any, y: Any) -> Any:
    z = f.times(x, 1.0)
    f.times_(z, y.detach())
    f.plus_(z, x)
    f.ramp_(f.plus_(z, y))
    return f.times(z, z)


CASES: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "pointwise": (lambda f, x, y: f.times(f.plus(x, y), f.e_to(x)), ((2, 3), (2, 3))),
    "broadcast": (lambda f, x, y: f.times(f.plus(y, 2), x), ((2, 3, 4), (3, 1))),
    "rank 0": (lambda f, x, y: f.plus(f.times(x, y), y), ((3,), ())),
    "empty": (lambda f, x, y: f.times(x, y), ((0, 3), (3,))),
    "product": (lambda f, x, y: f.ramp(f.matmul(x, y)), ((3, 5), (5, 2))),
    "transposed": (lambda f, x, y: f.matmul(x.t(), y), ((5, 3), (5, 2))),
    "used twice": (lambda f, x, y: f.plus(f.times(x, x), f.times(x, y)), ((7,), (7,))),
    "permuted": (lambda f, x, y: f.times(x.permute(2, 0, 1), y), ((2, 3, 4), (4, 2, 3))),
    "reshaped": (lambda f, x, y: f.times(x.transpose(0, 2).reshape(-1), y), ((2, 3, 4), (24,))),
    "viewed": (lambda f, x, y: f.times(x.view(6, 4), y), ((2, 3, 4), (4,))),
    "narrowed": (lambda f, x, y: f.times(x.narrow(1, 1, 2), y), ((3, 5), (3, 2))),
    "selected": (lambda f, x, y: f.times(x.select(1, -1), y), ((3, 5), (3,))),
    "expanded": (lambda f, x, y: f.times(x.unsqueeze(1).expand(3, 5, 2), y), ((3, 2), (5, 2))),
    "strided": (lambda f, x, y: f.times(x.as_strided((2, 2), (1, 2)), y), ((2, 3), (2, 2))),
    "overlapping": (lambda f, x, y: f.times(x.as_strided((4, 3), (1, 1)), y), ((6,), (4, 3))),
    "in place": (_in_place, ((2, 3), (2, 3))),
    "into a row": (_into_a_row, ((3, 3), (3, 3))),
    "into what was not recorded": (_into_what_was_not_recorded, ((3, 3), (3, 3))),
}  # fmt: skip


@pytest.mark.torch
@sampled("name", [*CASES], keep=2, wide=9)
def test_values_and_gradients_are_torchs(name: str) -> None:
    torch = pytest.importorskip("torch")
    function, shapes = CASES[name]
    rng = np.random.default_rng(0)
    given = [rng.normal(size=s) for s in shapes]
    ours = [tensor(g, requires_grad=True) for g in given]
    theirs = [torch.tensor(g, requires_grad=True) for g in given]
    result, expected = function(Ours, *ours), function(Torch(torch), *theirs)
    assert result.shape == tuple(expected.shape)
    np.testing.assert_allclose(array(result), expected.detach().numpy(), rtol=1e-12)
    total(result).backward()
    expected.sum().backward()
    for x, t in zip(ours, theirs, strict=True):
        assert (x.grad is None) == (t.grad is None)
        if x.grad is not None:
            np.testing.assert_allclose(array(x.grad), t.grad.numpy(), rtol=1e-12, atol=1e-12)


def test_a_gradient_has_a_gradient() -> None:
    x = tensor([0.5, -2.0, 3.0], requires_grad=True)
    y = total(times(e_to(x), times(x, x)))
    (first,) = backward((y,), (None,), (x,), 1, 1)  # type: ignore[misc]
    (second,) = backward((total(times(first, first)),), (None,), (x,), 0, 0)  # type: ignore[misc]
    v, e = array(x), np.exp(array(x))
    g, h = e * (v * v + 2 * v), e * (v * v + 4 * v + 2)
    np.testing.assert_allclose(array(first), g)
    np.testing.assert_allclose(array(second), 2 * g * h)
    assert x.grad is None


def test_several_outputs_and_one_that_nobody_used() -> None:
    x = tensor([1.0, 2.0, 3.0], requires_grad=True)
    _low, high, place = halves(x)
    assert not place.requires_grad
    assert high.output_nr == 1
    total(high).backward()
    assert array(x.grad).tolist() == [2, 4, 6]


def test_numbers_keep_the_type_of_tensors_and_mixed_types_promote() -> None:
    x = tensor([1, 2], np.float32)
    n = tensor([1, 2], np.int64)
    assert plus(x, 2).dtype.name == plus(x, n).dtype.name == "float32"
    assert plus(n, 2.5).dtype.name == "float32"
    assert array(plus(n, True)).tolist() == [2, 3]
    assert total(tensor([1, 1], np.bool_)).dtype.name == "int64"


def test_a_graph_is_freed_by_its_backward() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    y = total(times(x, x))
    y.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.backward()
    z = total(times(x, x))
    backward((z,), (None,), None, 1, 0)
    backward((z,), (None,), None, 0, 0)
    assert array(x.grad).tolist() == [6, 12]
    w = total(plus(x, tensor([[1.0], [2.0]])))  # keeps no elements
    w.backward()
    w.backward()
    assert array(x.grad).tolist() == [10, 16]
    v = total(times(x, 2.0))  # keeps a number where a tensor may stand
    v.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        v.backward()


def test_what_a_gradient_reads_may_not_be_written_before() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    y = times(x, 1.0)
    z = total(times(y, y))
    times_(y, 2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()
    w = total(plus(y, y))  # reads nothing of y
    plus_(y, 1.0)
    w.backward()
    assert array(x.grad).tolist() == [4, 4]


def test_leaves_and_their_views_are_not_written() -> None:
    x = tensor([[1.0, 2.0]], requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        times_(x, 2.0)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable"):
        times_(x.select(0, 0), 2.0)
    turned = tensor([[1.0, 2.0]]).select(0, 0)  # a leaf that is a view itself
    turned.requires_grad = True
    with pytest.raises(RuntimeError, match="a view of a leaf Variable"):
        times_(turned.select(0, 1), 2.0)
    assert turned.is_leaf
    with no_grad():
        times_(x, 2.0)
        times_(turned.select(0, 1), 2.0)
    assert array(x).tolist() == [[2, 4]]
    assert array(turned).tolist() == [1, 4]
    times_(x.data, 2.0)
    assert array(x).tolist() == [[4, 8]]


def test_another_layout_in_place_is_a_version() -> None:
    for name, given in (("t_", ()), ("squeeze_", ()), ("unsqueeze_", (0,)), ("resize_", (3, 2))):
        x: Any = tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
        view = x.view(6)
        assert getattr(x, name)(*given)._version == view._version == 1, name
    x = tensor([1.0, 2.0])
    assert x.resize_(2)._version == 0
    assert x.resize_(20)._version == 1


def test_views_share_versions_and_data_has_its_own() -> None:
    x = tensor([1.0, 2.0])
    v, d, own = x.view(2, 1), x.detach(), x.data
    plus_(v, 1.0)
    plus_(d, 1.0)
    bits = retyped(x, np.dtype(np.int32).num, (4,), (1,))
    assert x._version == v._version == d._version == bits._version == 2
    assert array(bits).tolist() == array(x).view(np.int32).tolist()
    plus_(own, 1.0)
    assert (x._version, own._version) == (2, 1)
    assert array(x).tolist() == [4, 5]


def test_gradients_add_up_in_place_and_only_leaves_have_them() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    y = times(x, 3.0)
    total(y).backward()
    held = x.grad
    total(times(x, 1.0)).backward()
    assert x.grad is held
    assert array(held).tolist() == [4, 4]
    with pytest.warns(UserWarning, match="The .grad attribute of a Tensor that is not a leaf"):
        assert y.grad is None
    assert not y.is_leaf
    assert x.is_leaf
    a, b = tensor(1.0, requires_grad=True), tensor(2.0, requires_grad=True)
    plus(a, b).backward()
    assert a.grad is not b.grad
    assert a.grad._storage is not b.grad._storage


def test_only_scalars_have_a_gradient_of_their_own() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar"):
        times(x, x).backward()
    with pytest.raises(RuntimeError, match="does not require grad and does not have a grad_fn"):
        total(x.detach()).backward()


def test_a_backward_that_failed_leaves_nothing_behind() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    y = times(x, 1.0)
    bad = times(y, y)
    z = total(plus(times(x, 5.0), bad))
    times_(y, 1.0)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="inplace"):
            backward((z,), (None,), None, 1, 0)
    x.grad = None
    w = total(times(x, 5.0))
    w.backward()
    assert array(x.grad).tolist() == [5, 5]


def test_only_what_was_asked_for_is_computed() -> None:
    x, y = (tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
    mid = times(x, x)
    z = total(times(mid, e_to(y)))
    by_mid, by_x = backward((z,), (None,), (mid, x), 0, 0)  # type: ignore[misc]
    np.testing.assert_allclose(array(by_mid), np.exp([1, 2]))
    np.testing.assert_allclose(array(by_x), np.exp([1, 2]) * [2, 4])
    assert y.grad is None


def test_what_died_leaves_nothing_to_what_lives_in_its_place() -> None:
    def live() -> list[Any]:
        x = library.ones(1, 1, 1, 2, 1, 2, requires_grad=True)
        y = x * x
        y.register_hook(lambda g: g)
        y.sum().backward()
        x.tag = "died"
        return [weakref.ref(x), weakref.ref(y)]

    seen: list[Any] = []
    for _ in range(3):
        died = [r for _ in range(100) for r in live()]
        assert all(r() is None for r in died)
        fresh = [library.ones(2) * 3 for _ in range(200)]
        seen += fresh
        assert all(t.shape == (2,) and t.tolist() == [3.0, 3.0] for t in fresh)
        assert all(t.grad is None and t.grad_fn is None and t._base is None for t in fresh)
        assert not any(t.requires_grad or t.__dict__ or t._backward_hooks for t in fresh)
        assert not any(weakref.getweakrefcount(t) for t in fresh)
        leaf = library.ones(2, requires_grad=True)
        nodes = [(leaf * t).grad_fn for t in fresh]
        assert not any(n._hooks for n in nodes if n is not None)
        assert len({id(n) for n in nodes}) == len(nodes)
    assert len({id(t) for t in seen}) == len(seen)


def test_forms_in_turn_are_told_apart() -> None:
    values = np.arange(9)
    square = tensor(values.reshape(3, 3))
    row = tensor(values[:3])
    forms = [
        *(square, square.t(), tensor(values.reshape(3, 3), np.int32), row, square.select(1, 0)),
        *(tensor(values[:3, None]), tensor(values[None, :3]), tensor(values[:1])),
    ]
    for a in forms * 2:
        for b in forms:
            assert np.array_equal(array(plus(a, b)), array(a) + array(b))
            assert np.array_equal(array(plus(a, b)), array(a) + array(b))


def test_long_chains_need_no_stack() -> None:
    x = tensor([1.0], requires_grad=True)
    y = x
    for _ in range(20_000):
        y = plus(y, 0.0)
    total(y).backward()
    assert array(x.grad).tolist() == [1]
    for _ in range(20_000):
        y = plus(y, 0.0)
    del y


@pytest.mark.wide
def test_a_million_nodes() -> None:
    x = tensor([1.0], requires_grad=True)
    y = x
    for _ in range(1_000_000):
        y = plus(y, 0.0)
    total(y).backward()
    assert array(x.grad).tolist() == [1]
    y = x
    for _ in range(1_000_000):
        y = y.view(1)
    del y


def test_cycles_through_attributes_and_nodes_are_collected() -> None:
    class Sub(Tensor):
        pass

    t = Sub(tensor([1.0, 2.0]))
    t.requires_grad = True
    t.me = [t]  # type: ignore[attr-defined]
    y = times(t, t)
    (g,) = backward((total(y),), (None,), (t,), 1, 1)  # type: ignore[misc]
    t.grad = g.detach()  # type: ignore[union-attr]
    t.other = g  # type: ignore[attr-defined]
    gone = weakref.ref(t)
    del t, y, g
    gc.collect()
    assert gone() is None


def _holds_its_loss(t: Any) -> None:
    loss = total(times(t, t))
    t.said = [loss]


def _has_a_recorded_gradient(t: Any) -> None:
    total(times(t, t)).backward(create_graph=True)


def _is_given_a_recorded_gradient(t: Any) -> None:
    t.grad = times(times(t, t), t)


def _is_hooked_by_its_loss(t: Any) -> None:
    said: list[Any] = []
    y = times(t, t)
    y.register_hook(lambda g: said.append(g))
    said.append(total(times(y, y)))


def _is_written_by_itself(t: Any) -> None:
    state = tensor([1.0, 2.0])
    state.copy_(times(state, t))


@pytest.mark.parametrize(
    "build",
    [
        _holds_its_loss,
        _has_a_recorded_gradient,
        _is_given_a_recorded_gradient,
        _is_hooked_by_its_loss,
        _is_written_by_itself,
    ],
)
def test_graphs_in_cycles_are_collected(build: Callable[[Any], None]) -> None:
    class Sub(Tensor):
        pass

    t = Sub(tensor([1.0, 2.0]))
    t.requires_grad = True
    build(t)
    gone = weakref.ref(t)
    del t
    gc.collect()
    assert gone() is None


def test_the_collector_sees_only_nodes_that_may_be_part_of_a_cycle() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    y = x
    for _ in range(3):
        y = times(y, 2.0)
    first = y.grad_fn.next_functions[0][0]
    assert not gc.is_tracked(y.grad_fn)
    y.register_hook(lambda g: None)
    assert gc.is_tracked(y.grad_fn)
    assert gc.is_tracked(times(y, 2.0).grad_fn)  # a hook may hold what it leads to
    assert not gc.is_tracked(first)
    total(y).backward(create_graph=True)
    assert gc.is_tracked(first)


def test_grad_mode_is_a_threads_own() -> None:
    seen: list[bool] = []
    x = tensor([1.0], requires_grad=True)
    old = set_grad_enabled(False)
    thread = threading.Thread(target=lambda: seen.append(plus(x, 1.0).requires_grad))
    thread.start()
    thread.join()
    mine = plus(x, 1.0).requires_grad
    set_grad_enabled(old)
    assert (seen, mine) == ([True], False)


def test_an_array_lends_its_memory() -> None:
    a = np.arange(12.0).reshape(3, 4)
    t = from_numpy(a[:, ::2])
    plus_(t, 1.0)
    assert a[0].tolist() == [1, 1, 3, 3]
    assert t.stride() == (4, 2)
    assert array(plus(t, t)).tolist() == (2 * a[:, ::2]).tolist()
    for kind in ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32"):
        b = np.array([0, 1], kind)
        assert from_numpy(b).dtype.name == kind
        assert from_numpy(b)._array().dtype == b.dtype
        assert from_numpy(b[1:]).item() == 1
    with pytest.raises(ValueError, match="negative"):
        from_numpy(a[::-1])
    with pytest.raises(TypeError, match="type complex128"):
        from_numpy(a + 0j)
    a.flags.writeable = False
    with pytest.raises(RuntimeError, match="read-only"):
        plus_(from_numpy(a), 1.0)
    with pytest.raises(RuntimeError, match="refers to a single memory location"):
        plus_(tensor([1.0]).expand(3), 1.0)


def test_an_op_takes_outputs_of_another_type() -> None:
    x, out = tensor([1.0, 2.0], np.float32), tensor([0.0, 0.0])
    assert plus(x, 1.0, out=out) is out
    assert array(out).tolist() == [2, 3]
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output"):
        plus(x, 1.0, out=tensor([0, 0], np.int64))


def test_kernels_that_users_define_take_tensors_and_are_recorded() -> None:
    k = tc.define(
        "def blend<T>(T(M, N) X, T(N) W, float s) -> (T(M) Y) { Y(i) +=! X(i, j) * W(j) * T(s) }"
    )
    x, w = tensor([[1.0, 2.0], [3.0, 4.0]]), tensor([1.0, 10.0])
    runs = k.calls
    for _ in range(3):
        y = k(x, w, 2)
    assert k.calls == runs + 3
    assert type(y) is Tensor
    assert array(y).tolist() == [42, 86]
    out = tensor([0.0, 0.0])
    assert k(x, w, 2, out=out) is out
    assert k(x, w, 2, out=out) is out
    assert out._version == 2
    w.requires_grad = True
    for _ in range(3):
        y = k(x, w, s=2)
        y = k(x, w, 2)
        assert y.requires_grad
    total(y).backward()
    assert array(w.grad).tolist() == [8, 12]
    with no_grad():
        assert not k(x, w, 2).requires_grad

    class Weight(Tensor):
        pass

    v = Weight(w)
    assert type(k(x, v, 2)) is Tensor
    assert type(k(array(x), array(v), 2)) is np.ndarray


@pytest.mark.wide
@pytest.mark.torch
def test_sums_that_a_gradient_reads_are_kept_and_recomputed_where_it_is_recorded() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(3, 5)), rng.normal(size=5)
    t, u = (torch.tensor(v, requires_grad=True) for v in (a, b))
    z = torch.nn.functional.layer_norm(t, (5,), None, None, 0.1) * u
    first = torch.autograd.grad((z * z).sum(), (t, u), create_graph=True)
    ((first[0] ** 2).sum() + (first[1] ** 2).sum()).backward()
    for _ in range(2):  # at the second call the op knows that it keeps more
        x, w = tensor(a, requires_grad=True), tensor(b, requires_grad=True)
        y = normed(x, w)
        np.testing.assert_allclose(array(y), z.detach().numpy(), rtol=1e-10, atol=1e-12)
        found = backward((total(times(y, y)),), (None,), (x, w), 1, 1)
        assert found is not None
        for g, h in zip(found, first, strict=True):
            np.testing.assert_allclose(array(g), h.detach().numpy(), rtol=1e-9, atol=1e-12)
        d_x, d_w = found
        plus(total(times(d_x, d_x)), total(times(d_w, d_w))).backward()
        for v, o in ((x, t), (w, u)):
            np.testing.assert_allclose(array(v.grad), o.grad.numpy(), rtol=1e-8, atol=1e-10)
    assert normed.recorded is not None
    with pytest.raises(RuntimeError, match="expected w of shape"):
        normed(x, tensor([1.0], requires_grad=True))
