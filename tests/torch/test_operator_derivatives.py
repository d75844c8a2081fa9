"""Derivatives of the operator `tcdsl::call`: autograd, torch.func, gradients by hand."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import tcdsl as tc
from tests.tiers import sampled
from tests.torch.texts import FCRELU, FIRST, NOISE, SOFTMAX

torch = pytest.importorskip("torch")
tct: Any = pytest.importorskip("tcdsl.torch")

from tcdsl.torch import library  # noqa: E402
from tests.torch.test_operator import ROOT, call, operands  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.cc]


@pytest.mark.wide
def test_the_operator_has_derivatives_of_any_order() -> None:
    softmax = tct.define(SOFTMAX)
    x = torch.randn(5, dtype=torch.float64, requires_grad=True)
    a = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)

    def of(x: Any, a: Any) -> Any:
        return call(softmax, x, a)[0]

    def at(x: Any) -> Any:
        return call(softmax, x, kinds="tf", floats=[0.5])[0]

    for f, given in ((of, (x, a)), (at, (x,))):
        assert torch.autograd.gradcheck(f, given)
        assert torch.autograd.gradgradcheck(f, given)
    assert not call(softmax, x, a)[1].requires_grad


def ours(x: Any, a: Any = 0.5) -> Any:
    if isinstance(a, float):
        return call(_softmax(), x, kinds="tf", floats=[a])[0].square().sum()
    return call(_softmax(), x, a)[0].square().sum()


def theirs(x: Any, a: Any = 0.5) -> Any:
    return torch.softmax(a * x, 0).square().sum()


@cache
def _softmax() -> Any:
    return tct.define(SOFTMAX)


def _again(f: Any) -> Any:
    return torch.func.grad(lambda *a: torch.func.grad(f)(*a).square().sum())


def _push(f: Any) -> Any:
    return lambda x: torch.func.jvp(f, (x,), (x.cos(),))


TRANSFORMS: dict[str, Any] = {
    "grad": torch.func.grad,
    "grad of grad": _again,
    "grad of grad of grad": lambda f: _again(lambda x: torch.func.grad(f)(x).square().sum()),
    "vmap": lambda f: lambda x: torch.vmap(f)(torch.stack([x, 2 * x, x.sin()])),
    "vmap of grad": lambda f: lambda x: torch.vmap(torch.func.grad(f))(torch.stack([x, 2 * x])),
    "grad of vmap": lambda f: torch.func.grad(
        lambda x: torch.vmap(f, in_dims=1)(torch.stack([x, 2 * x], 1)).square().sum()
    ),
    "jvp": _push,
    "jvp of grad": lambda f: _push(torch.func.grad(f)),
    "grad of jvp": lambda f: torch.func.grad(lambda x: _push(f)(x)[1]),
    "jvp of jvp": lambda f: _push(lambda x: _push(f)(x)[1]),
    "jvp of vmap": lambda f: _push(lambda x: torch.vmap(f)(torch.stack([x, 2 * x]))),
    "hessian": torch.func.hessian,
    "jacrev": torch.func.jacrev,
    "jacfwd": torch.func.jacfwd,
}


OFTEN = ("grad of grad", "vmap of grad", "jvp of grad", "hessian", "jacfwd")


@pytest.mark.parametrize(
    "name",
    ["vmap", *(pytest.param(n, marks=pytest.mark.wide if n in OFTEN else pytest.mark.deep)
               for n in TRANSFORMS if n != "vmap")],
)  # fmt: skip
def test_functions_of_torch_func_are_right_over_the_operator(name: str) -> None:
    transform = TRANSFORMS[name]
    torch.manual_seed(1)
    x = torch.randn(5, dtype=torch.float64)
    torch.testing.assert_close(transform(ours)(x), transform(theirs)(x))


def test_what_the_operator_has_no_rule_for_raises() -> None:
    noise = tct.define(NOISE)
    text = """
def twice(double(N) x) -> (y) { y(i) = 2 * x(i) }
def back(double(N) x, double(N) d_y) -> (d_x) { d_x(i) = 2 * d_y(i) }"""
    by_hand = tct.define(text, "twice", backward="back")
    x = torch.randn(2, 3)
    with pytest.raises(TypeError, match="way back is written by hand"):
        torch.func.jvp(lambda x: call(by_hand, x)[0], (x[0].double(),), (x[0].double(),))

    def noisy(x: Any) -> Any:
        return call(noise, x, kinds="ti", integers=[7])[0]

    with pytest.raises(TypeError, match="randomness='error'"):
        torch.vmap(noisy)(x)
    same, other = (torch.vmap(noisy, randomness=r)(x) - x for r in ("same", "different"))
    torch.testing.assert_close(same[0], same[1])
    assert not torch.allclose(other[0], other[1])


NOISY = "def noisy(double(N) x, uint64 seed) -> (y) { y(i) = rand(seed, i) * x(i) * x(i) }"


@sampled("flag", ["error", "same", "different"], keep=1)
def test_a_batch_of_directions_meets_the_numbers_of_the_one_pass(flag: str) -> None:
    noisy = tct.define(NOISY)
    x = torch.ones(5, dtype=torch.float64)
    y = noisy(x, 7)

    def f(x: Any) -> Any:
        return call(noisy, x, kinds="ti", integers=[7])[0]

    slopes = torch.vmap(lambda d: torch.func.jvp(f, (x,), (d,))[1], randomness=flag)(
        torch.eye(5).double()
    )
    torch.testing.assert_close(slopes, torch.diag(2 * y))
    (rows,) = torch.vmap(torch.func.vjp(f, x)[1], randomness=flag)(torch.eye(5).double())
    torch.testing.assert_close(rows, torch.diag(2 * y))
    # texts that nobody here has a kernel of, as in a process that loads a program
    for made in (tc.grad(noisy), tc.jvp(noisy)):
        text, *rest = library.spelling_of(made)
        over = torch.vmap(
            lambda d, text=text, rest=rest: torch.ops.tcdsl.call(
                f"# loaded\n{text}", *rest, "", [x, d], "tit", [7]
            )[-1],
            randomness=flag,
        )
        torch.testing.assert_close(over(torch.eye(5).double()), torch.diag(2 * y))


def test_a_seed_for_each_element_is_no_random_number_of_vmap() -> None:
    noisy = tct.define(NOISY)
    x, seeds = torch.ones(3, 5, dtype=torch.float64), torch.arange(3).to(torch.uint64)
    found = torch.vmap(lambda x, s: call(noisy, x, s)[0])(x, seeds)
    torch.testing.assert_close(found, torch.stack([noisy(x[0], s) for s in range(3)]))


@pytest.mark.deep
def test_a_loaded_derivative_over_directions_meets_the_numbers_of_its_pass(tmp_path: Path) -> None:
    noisy = tct.define(NOISY)
    x = torch.ones(5, dtype=torch.float64)
    derivatives = [library.spelling_of(made) for made in (tc.grad(noisy), tc.jvp(noisy))]

    class Slopes(torch.nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, x: Any, d: Any) -> Any:
            calls = [torch.ops.tcdsl.call(*s, "", [x, d], "tit", [7]) for s in derivatives]
            return [c[-1] for c in calls]

    torch.export.save(torch.export.export(Slopes(), (x, 2 * x)), tmp_path / "slopes.pt2")
    torch.save((x, torch.diag(2 * noisy(x, 7))), tmp_path / "data.pt")
    code = (
        "import torch, tcdsl.torch\n"
        f"program = torch.export.load({str(tmp_path / 'slopes.pt2')!r}).module()\n"
        f"x, expected = torch.load({str(tmp_path / 'data.pt')!r})\n"
        "for flag in ('error', 'same', 'different'):\n"
        "    over = torch.vmap(program, (None, 0), randomness=flag)\n"
        "    for found in over(x, torch.eye(5).double()):\n"
        "        torch.testing.assert_close(found, expected)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_an_integer_in_a_tensor_bounds_a_range_of_a_recorded_call() -> None:
    first = tct.define(FIRST)
    x = torch.randn(5, requires_grad=True)
    for n in (2, 4, 2):
        count = torch.tensor(n, dtype=torch.int32)
        (y,) = call(first, x, count, kinds="tft", floats=[2.0])
        (gradient,) = torch.autograd.grad(y.sum(), x)
        assert gradient.tolist() == [2.0] * n + [0.0] * (5 - n)


def test_a_number_in_a_tensor_of_another_type_gets_a_gradient_of_that_type() -> None:
    x = torch.randn(5, dtype=torch.float64, requires_grad=True)
    a = torch.tensor(0.5, requires_grad=True)
    ours(x, a).backward()
    assert (x.grad.dtype, a.grad.dtype) == (torch.float64, torch.float32)


def test_an_output_that_is_given_is_not_recorded() -> None:
    fcrelu = tct.define(FCRELU)
    x, w, b = operands()
    out = torch.empty(5, 3)
    given = (*fcrelu.spelled[0], "", [x, w.requires_grad_(), b], [out])
    with pytest.raises(TypeError, match="out= does not support automatic differentiation"):
        torch.ops.tcdsl.call_out(*given)
    with torch.no_grad():
        torch.ops.tcdsl.call_out(*given)
        assert torch.equal(out, fcrelu(x, w, b))


def checked(kernel: Any, *tensors: Any, grad: bool = False, **numbers: Any) -> None:
    given = [t.detach().requires_grad_(grad) for t in tensors]
    args = (*kernel.spelled[0], "", given)
    torch.library.opcheck(torch.ops.tcdsl.call.default, args, numbers)


@pytest.mark.wide
def test_opcheck_passes() -> None:
    checked(tct.define(FCRELU), *operands(), grad=True)


@pytest.mark.deep
@pytest.mark.parametrize("grad", [False, True])
def test_opcheck_passes_whatever_the_arguments(grad: bool) -> None:
    fcrelu, softmax, first = (tct.define(t) for t in (FCRELU, SOFTMAX, FIRST))
    x, w, b = operands()
    checked(fcrelu, x.T.contiguous().T, w[:1].expand(3, 7), torch.randn(6)[::2], grad=grad)
    checked(fcrelu, x[:0], w, b, grad=grad)
    checked(softmax, x[0].double(), kinds="tf", floats=[0.5], grad=grad)
    checked(first, b, kinds="tfi", floats=[0.5], integers=[2], grad=grad)
    if not grad:
        given = (*fcrelu.spelled[0], "", [x, w, b], [torch.empty(5, 3)])
        torch.library.opcheck(torch.ops.tcdsl.call_out.default, given)


@pytest.mark.wide
def test_a_way_back_by_hand_is_the_one_that_the_operator_takes() -> None:
    text = """
def scale<S=2>(double(N) x) -> (y) { y(i) = S * x(i) }
def back<S=2>(double(N) x, double(N) d_y) -> (d_x) { d_x(i) = 10 * S * d_y(i) }
def short(double(N) x, double(M) d_y) -> (d_x) { d_x(i) = d_y(2 * i) }"""
    derived, by_hand = tct.define(text, "scale"), tct.define(text, "scale", backward="back")
    assert derived.spelled != by_hand.spelled
    x = torch.ones(3, dtype=torch.float64, requires_grad=True)
    for kernel, slope in ((derived, 3.0), (by_hand, 30.0)):
        (y,) = torch.ops.tcdsl.call(*kernel.spelled[0], "S=3", [x])
        assert y.tolist() == [3, 3, 3]
        (gradient,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        assert gradient.tolist() == [slope] * 3
        assert torch.autograd.gradcheck(lambda d, k=kernel: _pulled(k, x, d), (x * 2,))
    wrong = tct.define(text, "scale", backward="short")
    with pytest.raises(ValueError, match=r"expected d_x of the shape of x, \(3,\)"):
        call(wrong, x)[0].sum().backward()


def _pulled(kernel: Any, x: Any, d: Any) -> Any:
    return torch.autograd.grad(call(kernel, x)[0], x, d, create_graph=True)[0]
