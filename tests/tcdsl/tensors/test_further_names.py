"""Names and keywords that programs of today use give what PyTorch gives."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import tcdsl
from tcdsl import library
from tcdsl.profiler import profile
from tests.tiers import sampled

tc: Any = library
torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.cc, pytest.mark.torch]
NAN = float("nan")


def _plain(found: Any) -> Any:
    if isinstance(found, tuple):
        return [_plain(f) for f in found]
    if hasattr(found, "tolist") and hasattr(found, "dtype"):
        return (tuple(found.shape), str(found.dtype), str(found.tolist()))
    return found


def _x(t: Any) -> Any:
    return t.tensor([[3.0, -1.0, 2.0], [0.0, 5.0, -4.0]])


def _turned(t: Any) -> Any:
    """Return the gradient that goes through a tensor which was given other layouts in place."""
    x = _x(t).requires_grad_()
    y = x * 2
    y.t_().unsqueeze_(0).squeeze_(0).mul_(t.arange(6.0).view(3, 2))
    y.sum().backward()
    return y.detach(), x.grad


def _drawn_over(t: Any) -> Any:
    """Return the gradient of what was drawn anew before the rest of it was used."""
    x = _x(t).requires_grad_()
    t.manual_seed(3)
    y = x * 2
    y[0].normal_()
    z = (x * 3).uniform_()
    (y + z).sum().backward()
    return (y > 0), z.detach() < 0.5, x.grad


CALLS: dict[str, Callable[..., Any]] = {
    "split": lambda t: t.split(_x(t), split_size_or_sections=1) + _x(t).split(split_size=[1, 1]),
    "split_with_sizes": lambda t: _x(t).split_with_sizes(split_sizes=[1, 2], dim=1),
    "concatenate": lambda t: t.concatenate([_x(t), _x(t)], axis=1),
    "swapaxes": lambda t: t.swapaxes(_x(t), axis0=0, axis1=1),
    "diagflat": lambda t: t.diagflat(t.tensor([1, 2]), offset=1),
    "new": lambda t: (_x(t).new_zeros(size=(2,)), _x(t).new_full(size=(2,), fill_value=3)),
    "resize_": lambda t: _x(t).resize_(size=(3, 2)),
    "copy_": lambda t: t.zeros(2, 3).copy_(_x(t), non_blocking=True),
    "asarray": lambda t: (t.asarray([1, 2]), t.asarray(_x(t), copy=True), t.asarray(2.5)),
    "frombuffer": lambda t: t.frombuffer(bytearray(b"1234"), dtype=t.int8, count=2, offset=1),
    "typename": lambda t: (t.typename(_x(t)), t.typename(3)),
    "where_it_lies": lambda t: (_x(t).get_device(), _x(t).is_cpu),
    "is_nonzero": lambda t: (t.is_nonzero(t.tensor([2.0])), t.tensor(0).is_nonzero()),
    "vdot": lambda t: t.vdot(_x(t)[0], _x(t)[1]),
    "index_put": lambda t: _x(t).index_put((t.tensor([0, 0]),), t.tensor(7.0), accumulate=True),
    "nanmedian": lambda t: t.nanmedian(t.tensor([[NAN, 4.0, 1.0], [NAN, NAN, NAN]]), 1).values,
    "nanmedian_of_all": lambda t: t.nanmedian(t.tensor([[NAN, 4.0], [1.0, 7.0]])),
    "cumsum_": lambda t: (_x(t).cumsum_(1), _x(t).cumprod_(0)),
    "less_": lambda t: (_x(t).less_(1), _x(t).greater_equal_(_x(t)), _x(t).not_equal_(0)),
    "logical_and_": lambda t: (_x(t).logical_and_(_x(t)), _x(t).bool().logical_not_()),
    "swapaxes_": lambda t: _x(t).swapaxes_(0, 1),
    "round": lambda t: (_x(t).div(7).round(decimals=2), t.round(_x(t) * 7, decimals=-1)),
    "pdist": lambda t: t.pdist(_x(t)),
    "bytes": lambda t: (
        _x(t).view(t.int32),
        t.tensor([1.5]).view(dtype=t.uint8),
        _x(t).view(t.int16),
    ),
    "bytes_of_a_column": lambda t: _x(t).t().view(t.uint8),
    "bytes_of_a_number": lambda t: t.tensor(1.0).view(t.int16),
    "squeeze": lambda t: (t.ones(1, 2, 1).squeeze(axis=0), t.unsqueeze(_x(t), axis=-1)),
    "layouts_of_recorded": lambda t: _turned(t),
    "chance_in_recorded": lambda t: _drawn_over(t),
    "layout_of_a_leaf": lambda t: _x(t).requires_grad_().t_(),
    "floor_divide_": lambda t: t.tensor([7, -7]).floor_divide_(2),
    "floats_into_integers": lambda t: t.tensor([7, -7]).floor_divide_(2.5),
    "nothing_is_zero": lambda t: t.is_nonzero(t.zeros(2)),
    "buffer_too_short": lambda t: t.frombuffer(bytearray(5), dtype=t.int32, offset=1, count=2),
}


def _told(call: Callable[..., Any], t: Any) -> Any:
    try:
        return _plain(call(t))
    except (RuntimeError, ValueError) as error:
        return str(error)


@sampled("name", sorted(CALLS), keep=14)
def test_names_are_pytorchs(name: str) -> None:
    assert _told(CALLS[name], tc) == _told(CALLS[name], torch)


def test_another_layout_in_place_is_recorded_by_its_own_node() -> None:
    calls: list[Callable[[Any], Any]] = [
        lambda y: y.t_(),
        lambda y: y.transpose_(0, 1).mul_(2.0),
        lambda y: y.unsqueeze_(0),
        lambda y: y.unsqueeze_(0).squeeze_(0),
        lambda y: y.unsqueeze_(0).squeeze_(),
        lambda y: y.swapaxes_(0, 1)[1].mul_(3.0),
        lambda y: y.as_strided_((2, 2), (1, 2), 1),
    ]
    for call in calls:
        told = []
        for t in (tc, torch):
            x = _x(t).requires_grad_()
            y = call(x * 2)
            name = y.grad_fn.name()
            (y * y).sum().backward()
            told.append((name, y.tolist(), x.grad.tolist()))
        assert told[0] == told[1]


def test_memory_is_shared_where_it_can_be() -> None:
    memory = bytearray(8)
    row = tc.frombuffer(memory, dtype=tc.int32)
    row[1] = 1
    assert memory[4] == 1
    assert tc.asarray(row) is row
    with pytest.raises(ValueError, match="alias"):
        tc.asarray([1, 2], copy=False)
    x = tc.ones(2, requires_grad=True)
    assert x.numpy(force=True).tolist() == [1.0, 1.0]


OFTEN = {"sum": True, "prod": False, "mean": False, "amax": False, "amin": True}
REDUCTIONS = [
    pytest.param(r, s, marks=() if s is often else pytest.mark.wide)
    for r, often in OFTEN.items()
    for s in (True, False)
]


@pytest.mark.parametrize("dtypes", [("float32",), pytest.param(("int64",), marks=pytest.mark.wide)])
@sampled("reduce, include_self", REDUCTIONS, keep=1)
def test_scattered_elements_are_combined_as_pytorchs(
    reduce: str, include_self: bool, dtypes: tuple[str, ...]
) -> None:
    for dtype in dtypes:
        found = []
        for t in (tc, torch):
            x = t.tensor([[3, 1, 2, 5], [4, 4, -1, 2], [2, 7, 7, 3]], dtype=getattr(t, dtype))
            src = t.tensor([[3, 9, -2, 5], [4, 1, 7, 2]], dtype=getattr(t, dtype))
            index = t.tensor([[0, 0, 2], [0, 1, 2]])
            if dtype == "float32" and reduce != "prod":  # whose gradient PyTorch divides out
                x[0, 3], src[1, 2] = NAN, NAN
            part = src[:, :3].clone()
            if dtype == "float32":
                x.requires_grad_(), part.requires_grad_()
            out = t.scatter_reduce(x, 0, index, part, reduce, include_self=include_self)
            rows = [out]
            if dtype == "float32":
                out.mul(t.arange(12.0).view(3, 4)).sum().backward()
                rows += [x.grad, part.grad]
            if reduce != "sum":
                named = {"reduce": reduce, "include_self": include_self}
                rows.append(t.index_reduce(x, 0, t.tensor([2, 2]), src, **named))
            kept = x.detach().clone()
            kept.scatter_reduce_(0, index, src, reduce, include_self=include_self)
            found.append([_plain(r.detach()) for r in (*rows, kept)])
        assert found[0] == found[1]


def test_numbers_are_real() -> None:
    for u in (library, torch):
        x = u.tensor([1.5, -2.0, 0.0, math.nan])
        assert u.real(x) is x or u.real(x).data_ptr() == x.data_ptr()
        assert x.real[:2].tolist() == x.conj()[:2].tolist() == [1.5, -2.0]
        assert u.isreal(x).tolist() == [True] * 4
        assert u.angle(x)[:3].tolist() == pytest.approx([0, math.pi, 0])
        assert u.angle(x)[3].isnan()
        assert u.angle(u.tensor([-1])).dtype is u.float32
        exact = u.tensor([-2.0, math.nan], dtype=u.float64, requires_grad=True)
        turned = u.angle(exact)
        turned.sum().backward()
        assert turned[0].item() == math.pi
        assert exact.grad.tolist() == [0, 0]
        assert u.square(u.tensor([True, False])).tolist() == [1, 0]
        assert u.square(u.tensor([True])).dtype is u.int64
        assert not (u.is_complex(x))
        assert not (x.is_conj())
        assert not (x.is_neg())
        assert not (x.is_meta)
        assert not (x.is_quantized)
        assert u.fill(x, 3).tolist() == [3.0] * 4
        assert u.detach(x.requires_grad_()).requires_grad is False
        with pytest.raises(RuntimeError, match="imag is not implemented for tensors with non-comp"):
            x.imag  # noqa: B018


@sampled("name", ["rnn_tanh", "rnn_relu", "gru", "lstm"], keep=1)
def test_cells_are_functions_of_their_weights(name: str) -> None:
    gates = {"gru": 3, "lstm": 4}.get(name, 1)
    found = []
    for t in (tc, torch):

        def made(*shape: int, t: Any = t) -> Any:
            row = t.arange(math.prod(shape), dtype=t.float64).view(shape)
            return (row * 0.7).sin().requires_grad_()

        x, h, w, u = made(2, 3), made(2, 4), made(4 * gates, 3), made(4 * gates, 4)
        for biases in ((), (made(4 * gates), made(4 * gates))):
            state = (h, h * 2) if name == "lstm" else h
            y = getattr(t, f"{name}_cell")(x, state, w, u, *biases)
            if name == "lstm":
                y = t.cat(y)
            (y * y).sum().backward()
            found.append([*y.flatten().tolist(), *w.grad.flatten().tolist()])
    for mine, theirs in zip(found[:2], found[2:], strict=True):
        assert mine == pytest.approx(theirs, rel=1e-9)


def test_rows_powers_and_whole_steps() -> None:
    found = []
    for t in (tcdsl, torch):
        table = t.ones(3, 2, requires_grad=True)
        t.embedding(table, t.tensor([0, 1, 1]), 1).sum().backward()
        x = t.tensor([[1.0, 2.0], [3.0, 4.0]])
        rows = [t.linalg.vander(x), t.linalg.vander(x.long(), N=3), table.grad]
        rows += [t.linspace(0.9, 7.3, 5, dtype=t.int32), t.linspace(5.9, 0.2, 4, dtype=t.uint8)]
        for driver in (None, "gels", "gelsd"):
            got = t.linalg.lstsq(t.eye(3)[:, :2], t.ones(3, 1), driver=driver)
            rows += [got.residuals.round(), got.rank, got.singular_values.round()]
        found.append([_plain(r) for r in rows])
    assert found[0] == found[1]


@sampled("dtype", ["float32", "int64", "bool", "float16", "float64", "int32"], keep=2)
def test_elements_are_repeated(dtype: str) -> None:
    for often in (1, 2, 3, 4, 9):
        for count in (0, 1, 5, 37):
            for step in (1, 3):
                mine, theirs = (
                    (t.arange(count * step) % 5 - 1).to(getattr(t, dtype))[::step]
                    .repeat_interleave(often)
                    for t in (tc, torch)
                )  # fmt: skip
                assert _plain(mine) == _plain(theirs)


def test_a_few_repeats_are_one_kernel_of_whole_vectors() -> None:
    x = tc.rand(100)
    for often, name in ((2, "stack"), (3, "stack"), (5, "often")):
        with profile() as prof:
            x.repeat_interleave(often)
        assert [e.key for e in prof.key_averages() if e.is_kernel] == [name]
