"""Results lie as PyTorch's do: copies, what is computed element by element, gradients."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from tcdsl import library
from tcdsl.ops.strides import Laid, in_order, laid, strides_of_copy, strides_of_result

tc: Any = library
torch = pytest.importorskip("torch")
pytestmark = pytest.mark.cc


def _shape(rng: random.Random) -> list[int]:
    few = [0, 1, 1, 2, 3] if rng.random() < 0.2 else [1, 2, 2, 3]
    return [rng.choice(few) for _ in range(rng.randrange(6))]


def _laid(rng: random.Random, shape: list[int]) -> Laid:
    """Return how an operand may lie: in any order, with gaps, repeated, of odd strides."""
    order = [*range(len(shape))]
    how = rng.choice(("plain", "turned", "turned", "gaps", "repeated", "odd", "last"))
    if how == "plain":
        return Laid(tuple(shape), in_order(shape, order))
    if how == "odd":
        return Laid(tuple(shape), tuple(rng.randrange(1, 8) for _ in shape))
    if how == "last" and len(shape) == 4:
        return Laid(tuple(shape), in_order(shape, (0, 2, 3, 1)))
    rng.shuffle(order)
    once = [1 if how == "repeated" and rng.random() < 0.5 else n for n in shape]
    strides = in_order(once, order)
    if how == "gaps":
        return Laid(tuple(shape), tuple(2 * s for s in strides))
    still = [0 if n != wide else s for n, wide, s in zip(once, shape, strides, strict=True)]
    return Laid(tuple(shape), tuple(still))


def _operands(rng: random.Random) -> list[Laid]:
    shape, found = _shape(rng), []
    for _ in range(rng.randrange(1, 4)):
        own = [1 if rng.random() < 0.2 else n for n in shape]
        found.append(_laid(rng, own[rng.randrange(len(own) + 1) if rng.random() < 0.2 else 0 :]))
    return found


def _made(library: Any, operand: Laid) -> Any:
    """Return a tensor that lies so, of numbers that differ."""
    span = 1 + sum((n - 1) * s for n, s in zip(*operand, strict=True) if n)
    return library.arange(float(max(span, 1))).as_strided(*operand)


_OF_SO_MANY: dict[int, Callable[..., Any]] = {
    1: torch.neg,
    2: lambda a, b: a + b,
    3: torch.addcmul,
}


def _check_rule(seed: int, count: int) -> None:
    rng = random.Random(seed)
    for _ in range(count):
        operands = _operands(rng)
        theirs = [_made(torch, o) for o in operands]
        result = _OF_SO_MANY[len(theirs)](*theirs)
        shape = tuple(result.shape)
        plain = in_order(shape, range(len(shape)))
        assert (strides_of_result(shape, operands) or plain) == result.stride(), operands
        one = operands[0]
        copied = strides_of_copy(one.shape, [one]) or in_order(one.shape, range(len(one.shape)))
        assert copied == theirs[0].clone().stride() == torch.empty_like(theirs[0]).stride(), one


def test_the_rule_is_that_of_pytorch() -> None:
    _check_rule(0, 300)


@pytest.mark.wide
def test_the_rule_is_that_of_pytorch_wide() -> None:
    _check_rule(1, 10_000)


def _back(t: Any, x: Any, y: Any) -> Any:
    made = x * y
    by = made.detach() + 1
    return t.autograd.grad(made, x, by)[0]


_CALLS: dict[str, Callable[..., Any]] = {
    "unary": lambda t, x, y: t.exp(x / 100),
    "number": lambda t, x, y: 2 - x,
    "comparison": lambda t, x, y: x > y,
    "where": lambda t, x, y: t.where(x > 3, y, x),
    "cast": lambda t, x, y: x.to(t.int32) + y,
    "clone": lambda t, x, y: (x.clone(), x.contiguous(), t.zeros_like(y), t.rand_like(x) * 0),
    "clamp": lambda t, x, y: x.clamp(1, 9),
    "quotients": lambda t, x, y: (x.to(t.int32) // 3, x.to(t.int32) % (y.to(t.int32) + 1)),
    "powers": lambda t, x, y: x.to(t.int32) ** 2 + (y.to(t.int32) % 3) ** (x.to(t.int32) % 2),
    "reshaped": lambda t, x, y: (x + 1).reshape(-1),
    "back": lambda t, x, y: _back(t, x.requires_grad_(), y),
}


def _told(result: Any) -> Any:
    if isinstance(result, tuple):
        return [_told(one) for one in result]
    return tuple(result.shape), _steps(result), result.is_contiguous(), result.tolist()


def _steps(result: Any) -> list[int]:
    """Return the strides that are walked: where an extent is 1 they are those of the first call."""
    walked = 0 not in result.shape
    return [s for n, s in zip(result.shape, result.stride(), strict=True) if walked and n != 1]


def _check_calls(name: str, seed: int, count: int) -> None:
    rng = random.Random(seed)
    for _ in range(count):
        shape = _shape(rng)
        pair = [_laid(rng, shape), _laid(rng, [1 if rng.random() < 0.2 else n for n in shape])]
        mine, wanted = (_CALLS[name](t, *(_made(t, o) for o in pair)) for t in (tc, torch))
        if name in ("unary", "back"):  # rounded elsewhere
            assert _steps(mine) == _steps(wanted), pair
        else:
            assert _told(mine) == _told(wanted), pair


@pytest.mark.parametrize("name", ["number", "where"])
def test_results_lie_as_pytorchs(name: str) -> None:
    _check_calls(name, 0, 20)


@pytest.mark.wide
@pytest.mark.parametrize("name", sorted(_CALLS))
def test_results_lie_as_pytorchs_wide(name: str) -> None:
    _check_calls(name, 1, 6 if name == "back" else 200)


def test_views_of_results_are_as_pytorchs() -> None:
    for t in (tc, torch):
        x = t.arange(24.0).view(4, 6).t() + 1
        assert x.stride() == (1, 6)
        assert not x.is_contiguous()
        with pytest.raises(RuntimeError, match="view size is not compatible"):
            x.view(24)
        assert x.t().view(24).tolist() == [*range(1, 25)]
        y = t.zeros(2, 3, 4, 5).contiguous(memory_format=t.channels_last)
        assert t.relu(y * 2).is_contiguous(memory_format=t.channels_last)
        y += 1
        assert y.stride() == (60, 1, 15, 3)


def test_outputs_keep_their_layout_or_get_the_results() -> None:
    for t in (tc, torch):
        x = t.arange(6.0).view(3, 2).t()
        kept, given = t.zeros(2, 3), t.empty(0)
        assert t.mul(x, 2, out=kept).stride() == (3, 1)
        assert t.mul(x, 2, out=given) is given
        assert given.stride() == (1, 2)
        assert kept.tolist() == given.tolist() == (x * 2).tolist()


def test_gradients_lie_as_their_leaves() -> None:
    for t in (tc, torch):
        leaf = t.arange(6.0).view(3, 2).t().requires_grad_()
        other = t.arange(6.0).view(2, 3)
        for often in (1, 2):
            (leaf * other).sum().backward()
            assert leaf.grad.stride() == (1, 2)
            assert leaf.grad.tolist() == (often * other).tolist()
    for t in (tc, torch):
        leaf = t.arange(6.0).view(3, 2).t().requires_grad_()
        plain = t.arange(6.0).view(2, 3).requires_grad_()
        (plain * leaf.detach()).sum().backward()
        assert plain.grad.stride() == (3, 1)
        with_gaps = t.arange(12.0).view(2, 6)[:, ::2].requires_grad_()
        (with_gaps * leaf.detach()).sum().backward()
        assert with_gaps.grad.stride() == (3, 1)
    leaf = tc.arange(6.0).view(3, 2).t().requires_grad_()
    (leaf * leaf * tc.ones(2, 3)).sum().backward(create_graph=True)
    assert leaf.grad.stride() == (1, 2)
    assert leaf.grad.requires_grad


def test_tensors_without_memory_lie_so_too() -> None:
    x = tc.empty(3, 2, device="meta").t()
    assert [(x + 1).stride(), tc.exp(x).stride(), x.clone().stride()] == [(1, 2)] * 3
    assert tc.ones(2, 3).to("meta").stride() == (3, 1)


def test_a_layout_is_of_the_call_and_not_of_the_shapes() -> None:
    """Forms of one shape that lie otherwise have results that lie otherwise, in any order."""
    x = tc.arange(6.0).view(2, 3)
    y = tc.arange(6.0).view(3, 2).t()
    for _ in range(2):
        assert [(x * x).stride(), (x * y).stride()] == [(3, 1), (3, 1)]
        assert [(y * x).stride(), (y * y).stride()] == [(1, 2), (1, 2)]
    assert laid(y.clone()).strides == (1, 2)
