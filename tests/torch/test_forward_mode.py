"""Kernels in forward mode: jvp, linearize and dual tensors, alone and with other transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
tct: Any = pytest.importorskip("tcdsl.torch")

from torch.func import (  # noqa: E402 - torch may be missing
    grad,
    hessian,
    jacfwd,
    jvp,
    linearize,
    vmap,
)

from tcdsl.grammar.text.errors import TCTypeError  # noqa: E402
from tests.torch.cases import CASES, Case, listed, total  # noqa: E402
from tests.torch.test_transforms import (  # noqa: E402
    SQUARE,
    agree,
    both,
    cases,
    long_cases,
    same,
)

pytestmark = [pytest.mark.torch, pytest.mark.cc]

forward_ad: Any = torch.autograd.forward_ad


def tangents_of(values: list[Any], seed: int = 3) -> list[Any]:
    made = torch.Generator().manual_seed(seed)
    return [torch.randn(v.shape, generator=made, dtype=v.dtype) for v in values]


def of_floats(case: Case, f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of the float arguments, whose results are all floats."""
    values = case.values()

    def g(*xs: Any) -> Any:
        filled = [*values]
        for place, x in zip(case.floats, xs, strict=True):
            filled[place] = x
        return tuple(o for o in listed(f(*filled)) if o.is_floating_point())

    return g


def floats_of(case: Case) -> list[Any]:
    values = case.values()
    return [values[i] for i in case.floats]


@cases
def test_jvp_along_all_arguments_and_along_each(case: Case) -> None:
    xs = floats_of(case)
    ts = tangents_of(xs)
    agree(case, lambda f: jvp(of_floats(case, f), (*xs,), (*ts,)))
    for i in range(len(xs)):
        along = [t if i == j else torch.zeros_like(t) for j, t in enumerate(ts)]
        agree(case, lambda f: jvp(of_floats(case, f), (*xs,), (*along,)))  # noqa: B023

        def one(f: Callable[..., Any], i: int = i) -> Any:
            g = of_floats(case, f)
            return jvp(lambda x: g(*xs[:i], x, *xs[i + 1 :]), (xs[i],), (ts[i],))

        agree(case, one)


@cases
def test_jacfwd_and_linearize(case: Case) -> None:
    xs = floats_of(case)
    ts = tangents_of(xs)
    agree(case, lambda f: jacfwd(of_floats(case, f), tuple(range(len(xs))))(*xs))
    agree(case, lambda f: linearize(of_floats(case, f), *xs)[1](*ts))


@long_cases
def test_forward_over_reverse_and_reverse_over_forward(case: Case) -> None:
    xs = floats_of(case)
    ts = tangents_of(xs)
    places = tuple(range(len(xs)))
    agree(case, lambda f: hessian(total(of_floats(case, f)), places)(*xs))
    agree(case, lambda f: jvp(grad(total(of_floats(case, f)), places), (*xs,), (*ts,)))

    def along(f: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *xs: jvp(total(of_floats(case, f)), xs, (*ts,))[1]

    agree(case, lambda f: grad(along(f), places)(*xs))
    agree(case, lambda f: jvp(along(f), (*xs,), (*ts,)))


@pytest.mark.wide
@cases
def test_vmap_of_jvp_and_jvp_of_vmap(case: Case) -> None:
    xs = [torch.stack([x, x.cos(), 2 * x]) for x in floats_of(case)]
    ts = tangents_of(xs)

    def each(f: Callable[..., Any]) -> Any:
        g = of_floats(case, f)
        return vmap(lambda x, t: jvp(g, x, t))((*xs,), (*ts,))

    agree(case, each)
    agree(case, lambda f: jvp(vmap(of_floats(case, f)), (*xs,), (*ts,)))


@cases
def test_dual_tensors_of_forward_ad(case: Case) -> None:
    xs = floats_of(case)
    ts = tangents_of(xs)

    def pushed(f: Callable[..., Any]) -> Any:
        with forward_ad.dual_level():
            duals = [forward_ad.make_dual(x, t) for x, t in zip(xs, ts, strict=True)]
            outputs = of_floats(case, f)(*duals)
            found = [forward_ad.unpack_dual(o) for o in outputs]
            plain = of_floats(case, f)(*xs)
            assert all(forward_ad.unpack_dual(o).tangent is None for o in plain)
        return [tuple(pair) for pair in found]

    agree(case, pushed)


@pytest.mark.deep
@pytest.mark.usefixtures("way")
def test_tangents_of_a_way_back_whose_forward_pass_was_outside() -> None:
    k, x = tct.define(SQUARE), torch.randn(3, requires_grad=True)
    y = k(x)
    along: Any = jvp(
        lambda v: torch.autograd.grad(y, x, v, create_graph=True)[0], (torch.ones(3),), (x,)
    )
    same(along, (2 * x, 2 * x * x))
    same(torch.autograd.grad(along[1].sum(), x)[0], 4 * x.detach())


@pytest.mark.deep
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.usefixtures("way")
def test_transforms_of_a_way_back_whose_forward_pass_was_outside(case: Case) -> None:
    def pulled(f: Callable[..., Any], derive: Callable[..., Any]) -> Any:
        xs = [x.requires_grad_() for x in floats_of(case)]
        y = total(of_floats(case, f))(*xs)
        (first,) = torch.autograd.grad(y, xs[:1], create_graph=True)
        for start in (y, first):
            if not start.requires_grad:
                continue

            def back(v: Any, start: Any = start) -> Any:
                kept = {"create_graph": True, "allow_unused": True, "materialize_grads": True}
                return torch.autograd.grad(start, xs[0], v, **kept)[0]

            found = derive(back, start.detach().cos(), start.detach().exp())
            yield [f.detach() for f in found]
            norm = sum((f * f).sum() for f in found)
            if norm.requires_grad:
                more = {"retain_graph": True, "allow_unused": True, "materialize_grads": True}
                yield torch.autograd.grad(norm, xs, **more)

    def each(back: Any, v: Any, t: Any) -> Any:
        return (vmap(back)(torch.stack([v, t])),)

    def along(back: Any, v: Any, t: Any) -> Any:
        return jvp(back, (v,), (t,))

    def dual(back: Any, v: Any, t: Any) -> Any:
        with forward_ad.dual_level():
            found = forward_ad.unpack_dual(back(forward_ad.make_dual(v, t)))
            return [f for f in found if f is not None]

    def by_adjoints(back: Any, v: Any, _t: Any) -> Any:
        return (grad(lambda v: back(v).square().sum())(v),)

    for derive in (each, along, dual, by_adjoints):
        ours, theirs = ([*pulled(f, derive)] for f in both(case))
        same(ours, theirs, check_stride=False)


@long_cases
def test_gradcheck_of_every_mode(case: Case) -> None:
    xs = [x.requires_grad_() for x in floats_of(case)]
    f = of_floats(case, case.kernel)
    assert torch.autograd.gradcheck(f, xs, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(f, xs, check_fwd_over_rev=True, check_rev_over_rev=True)


def test_tangents_of_other_types_and_none_at_all() -> None:
    case = CASES[-2]
    assert case.name == "scaled"
    k = case.kernel
    x, s = case.values()
    with forward_ad.dual_level():
        y, z, n = k(forward_ad.make_dual(x, x.cos()), s)
        same(forward_ad.unpack_dual(y).tangent, 2 * x * x.cos() * s)
        same(forward_ad.unpack_dual(z).tangent, (3 * x * x * x.cos()).sum())
        assert forward_ad.unpack_dual(n).tangent is None
        y, z, _ = k(x, forward_ad.make_dual(s.float(), torch.tensor(2.0)))  # converted, as s is
        same(forward_ad.unpack_dual(y).tangent, 2 * x * x)
        same(forward_ad.unpack_dual(z).tangent, torch.zeros((), dtype=torch.float64))


@pytest.mark.wide
def test_old_functions_of_torch_autograd() -> None:
    k = tct.define("def cube(double(N) x) -> (y) { y(i) = x(i) * x(i) * x(i) }")
    x = torch.randn(4, dtype=torch.float64)
    v = x.cos()
    functional: Any = torch.autograd.functional
    ways: list[Any] = [
        lambda f: functional.jvp(f, x, v),
        lambda f: functional.jacobian(f, x),
        lambda f: functional.hessian(lambda x: f(x).sum(), x),
        lambda f: functional.hvp(lambda x: f(x).sum(), x, v),
        lambda f: functional.vhp(lambda x: f(x).sum(), x, v),
    ]
    for derive in ways:
        same(derive(k), derive(lambda x: x * x * x))


def test_the_older_vmap_of_torch_autograd_is_refused_with_its_cure() -> None:
    k = tct.define(SQUARE)
    with pytest.raises(TCTypeError, match=r"gives no memory.*\n.*torch\.func\.vmap, jacrev"):
        torch.autograd.functional.jacobian(k, torch.randn(3), vectorize=True)


def test_what_forward_mode_cannot_derive_raises() -> None:
    bessel = tct.define("def bessel(double(N) x) -> (y) { y(i) = cyl_bessel_i0(x(i)) }")
    x = torch.rand(3, dtype=torch.float64)
    try:
        expected = grad(lambda x: bessel(x).sum())(x)
    except TCTypeError:
        with pytest.raises(TCTypeError):
            jvp(bessel, (x,), (x,))
    else:
        same(jvp(bessel, (x,), (torch.ones_like(x),))[1], expected)
