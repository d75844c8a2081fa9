"""`define(..., backward=)`: a way back that somebody wrote, and what is refused of one."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from tests.tiers import sampled

torch = pytest.importorskip("torch")
tct: Any = pytest.importorskip("tcdsl.torch")

from tcdsl.grammar.text.errors import ShapeError, TCTypeError  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.cc]

CONV = """
def conv(double(N,C,H,W) I, double(M,C,KH,KW) K) -> (O) {
  O(n, m, h, w) +=! I(n, c, h + kh, w + kw) * K(m, c, kh, kw)
}
def conv_grad(double(N,C,H,W) I, double(M,C,KH,KW) K, double(N,M,OH,OW) d_O)
    -> (double(N,C,H,W) d_I, double(M,C,KH,KW) d_K) {
  d_I(n, c, h + kh, w + kw) +=! d_O(n, m, h, w) * K(m, c, kh, kw)
  d_K(m, c, kh, kw) +=! d_O(n, m, h, w) * I(n, c, h + kh, w + kw) where kh in 0:KH, kw in 0:KW
}"""
# sigmoid from its output; the step whose gradient is that of the identity
SIGMOID = """
def squash(double(...) x) -> (y) { y(...) = sigmoid(x(...)) }
def back(double(...) x, double(...) y, double(...) d_y) -> (d_x) {
  d_x(...) = d_y(...) * y(...) * (1 - y(...))
}"""
STEP = """
def step(float(N) x) -> (y) { y(i) = x(i) > 0 ? 1.0 : 0.0 }
def straight(float(N) x, float(N) d_y) -> (d_x) { d_x(i) = d_y(i) }"""
SCALE = """
def scale<T, S=1>(T(N) x, T(N) g) -> (y) { y(i) = S * x(i) * g(i) }
def back<T, S=1>(T(N) x, T(N) g, T(N) d_y) -> (GRADIENTS) { LINES }"""


def scale(gradients: str, lines: str) -> Any:
    text = SCALE.replace("GRADIENTS", gradients).replace("LINES", lines)
    return tct.define(text, "scale", backward="back")


@pytest.mark.wide
def test_it_is_the_gradient_and_its_own_derivative_is_derived() -> None:
    conv = tct.define(CONV, "conv", backward="conv_grad")
    x = torch.randn(2, 2, 4, 5, dtype=torch.float64, requires_grad=True)
    k = torch.randn(3, 2, 3, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(conv, (x, k))
    assert torch.autograd.gradgradcheck(conv, (x, k))
    ours, theirs = (
        torch.autograd.grad((f(x, k) ** 2).sum(), (x, k))
        for f in (conv, torch.nn.functional.conv2d)
    )
    torch.testing.assert_close(ours, theirs)


@pytest.mark.wide
def test_it_may_read_outputs_and_have_any_rank() -> None:
    squash = tct.define(SIGMOID, backward="back")
    assert squash.name == "squash"
    for shape in ((3,), (2, 3)):
        x = torch.randn(*shape, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(squash, x)
        assert torch.autograd.gradgradcheck(squash, x)


def test_it_is_what_runs_and_not_the_derived_one() -> None:
    step = tct.define(STEP, "step", backward="straight")
    for k in (
        step,
        pickle.loads(pickle.dumps(step)),
        copy.deepcopy(step),
        step.with_tune("off"),
        step.with_autocast("float32"),
        tct.nn.TC(STEP, "step", backward="straight"),
        tct.nn.TC(step),
    ):
        x = torch.tensor([-1.0, 2.0], requires_grad=True)
        (k(x) * torch.tensor([3.0, 5.0])).sum().backward()
        assert x.grad.tolist() == [3, 5]


D_X, D_G = "(i) = S * d_y(i) * g(i)", "(i) = S * d_y(i) * x(i)"


@sampled(
    "gradients, lines",
    [
        ("grad_g, x_grad", f"grad_g{D_G} x_grad{D_X}"),
        ("first, second", f"first{D_X} second{D_G}"),
        ("d_x, rest", f"d_x{D_X} rest{D_G}"),
    ],
    keep=1,
)
def test_gradients_go_by_position_or_by_name(gradients: str, lines: str) -> None:
    x, g = (torch.tensor([a, 2.0], dtype=torch.float64, requires_grad=True) for a in (1.0, 3.0))
    found = torch.autograd.grad(scale(gradients, lines)(x, g, S=2).sum(), (x, g))
    assert [t.tolist() for t in found] == [(2 * g).tolist(), (2 * x).tolist()]


def test_some_gradients_may_be_left_out() -> None:
    x, g = (torch.tensor([a, 2.0], dtype=torch.float64, requires_grad=True) for a in (1.0, 3.0))
    only = scale("d_g", f"d_g{D_G}")
    found = torch.autograd.grad(only(x, g).sum(), (x, g), allow_unused=True)
    assert found[0] is None
    assert torch.equal(found[1], x)


def test_a_generic_that_the_way_back_has_not_is_the_forward_passes() -> None:
    text = """
    def shift<S=1>(float(N) x, float(N) g) -> (y) { y(i) = x(i) * g(i) + S }
    def back(float(N) x, float(N) g, float(N) d_y) -> (d_x) { d_x(i) = d_y(i) * g(i) }"""
    shift = tct.define(text, "shift", backward="back")
    x = torch.ones(3, requires_grad=True)
    y = shift(x, torch.full((3,), 2.0), S=4)
    assert y.tolist() == [6] * 3
    y.sum().backward()
    assert x.grad.tolist() == [2] * 3


@pytest.mark.parametrize(
    ("back", "kind", "message"),
    [
        (
            "(float(N,M) W, float(M) x, float(N) d_y) -> (d_W, d_x) "
            "{ d_W(i, j) = d_y(i) * x(j) d_x(j) +=! d_y(i) * W(i, j) }",
            None,
            "",
        ),
        (
            "(float(N,M) W, float(N) d_y) -> (d_W) { d_W(i, j) = d_y(i) where j in 0:M }",
            TCTypeError,
            "it takes (W, d_y); expected W, x, then outputs that it reads, by their names, then an "
            "adjoint for each float output: d_y",
        ),
        (
            "(float(N,M) W, float(M) x, float(N) q, float(N) d_y) -> (d_x) "
            "{ d_x(j) +=! d_y(i) * W(i, j) * q(i) }",
            TCTypeError,
            "it takes (W, x, q, d_y)",
        ),
        (
            "(float(N,M) W, double(M) x, float(N) d_y) -> (d_x) { d_x(j) +=! d_y(i) * W(i, j) }",
            TCTypeError,
            "expected x like float32(M) x, got float64(M) x",
        ),
        (
            "(float(N,M) W, float(M) x, float(N,M) d_y) -> (d_x) "
            "{ d_x(j) +=! d_y(i, j) * W(i, j) }",
            TCTypeError,
            "expected d_y like float32(N) y, got float32(N, M) d_y",
        ),
        (
            "(float(N,M) W, float(M) x, float(N) d_y) -> (float(M+1) d_x) "
            "{ d_x(j) +=! d_y(i) * W(i, j) where j in 0:M }",
            ShapeError,
            "d_x has the extent M + 1 where x has M",
        ),
        (
            "(float(N,M) W, float(M) x, float(N) d_y) -> (a, b, c) "
            "{ a(i, j) = d_y(i) * x(j) b(j) = x(j) c(j) = x(j) }",
            TCTypeError,
            "it gives (a, b, c); expected the gradients by the float parameters, in their order or "
            "by name: d_W, d_x",
        ),
        (  # swapped: one is told by its name to stand elsewhere
            "(float(N,M) W, float(M) x, float(N) d_y) -> (d_x, rest) "
            "{ d_x(j) +=! d_y(i) * W(i, j) rest(i, j) = d_y(i) * x(j) }",
            TCTypeError,
            "it gives (d_x, rest)",
        ),
    ],
)
def test_its_head_is_held_against_the_other_at_define(back: str, kind: Any, message: str) -> None:
    text = f"def mv(float(N,M) W, float(M) x) -> (y) {{ y(i) +=! W(i, j) * x(j) }} def back{back}"
    if kind is None:
        tct.define(text, "mv", backward="back")
        return
    with pytest.raises(kind) as caught:
        tct.define(text, "mv", backward="back")
    assert str(caught.value).startswith("back as the way back of mv: ")
    assert message in str(caught.value)


def test_there_has_to_be_such_a_definition_and_one_that_it_belongs_to() -> None:
    with pytest.raises(TCTypeError, match="no definition 'bock' for the way back; the text has st"):
        tct.define(STEP, "step", backward="bock")
    with pytest.raises(TCTypeError, match="of which definition is 'straight' the way back"):
        tct.define(STEP + STEP.replace("step", "a").replace("straight", "b"), backward="straight")
    text = "def f(int32(N) x) -> (y) { y(i) = x(i) } def b(int32(N) x) -> (z) { z(i) = x(i) }"
    with pytest.raises(TCTypeError, match="none: it has no float one"):
        tct.define(text, "f", backward="b")


def test_what_a_way_back_hands_on_to_a_callee_is_kept() -> None:
    text = """
    def twice(float(N) u) -> (v) { v(i) = 2 * u(i) }
    def f(float(N) x, float(N) g) -> (y) { y(i) = x(i) * g(i) }
    def back(float(N) x, float(N) g, float(N) d_y) -> (d_x) { t = twice(g)  d_x(i) = t(i) * d_y(i) }
    """
    f = tct.define(text, "f", backward="back")
    x, g = torch.ones(5, requires_grad=True), torch.arange(5.0)
    for y in (f(x, g), called(f, x, g)):
        (found,) = torch.autograd.grad(y.sum(), x)
        assert torch.equal(found, 2 * g)


STRAIGHT: dict[str, Any] = {  # the gradient of the sum by x, of a kernel and x
    "backward": lambda k, x: torch.autograd.grad(k(x).sum(), x)[0],
    "grad": lambda k, x: torch.func.grad(lambda x: k(x).sum())(x),
    "grad of vmap": lambda k, x: torch.func.grad(lambda x: torch.vmap(k)(x).sum())(x[None])[0],
    "vmap of grad": lambda k, x: torch.vmap(torch.func.grad(lambda x: k(x).sum()))(x[None])[0],
    "operator": lambda k, x: torch.autograd.grad(called(k, x).sum(), x)[0],
    "vmap of the operator": lambda k, x: torch.autograd.grad(
        torch.vmap(lambda x: called(k, x))(x[None]).sum(), x
    )[0],
}


def called(kernel: Any, *tensors: Any) -> Any:
    return torch.ops.tcdsl.call(*kernel.spelled[0], "", [*tensors])[0]


@sampled("how", STRAIGHT, keep=2)
def test_a_batch_has_the_way_back_of_its_elements_on_every_route(how: str) -> None:
    step = tct.define(STEP, "step", backward="straight")
    many = step.batched("x")
    x = torch.randn(3, 5)
    for kernel in (many, pickle.loads(pickle.dumps(many)), many.with_tune("off")):
        assert torch.equal(torch.vmap(kernel)(x[None])[0], step(x.flatten()).reshape(3, 5))
        found = STRAIGHT[how](kernel, x.clone().requires_grad_())
        assert torch.equal(found, torch.ones(3, 5))
        with pytest.raises(TCTypeError, match="forward-mode AD of a kernel whose way back"):
            torch.func.jvp(kernel, (x,), (x,))


# weights that elements share, read, set twice, in a loop, by a call; an output of weights alone
SHARED = """
def twice(double(N) u) -> (v) { v(i) = 2 * u(i) }
def f(double(N) x, double(N) w, double(N) g, double a) -> (y, z) {
  y(i) = a * w(i) * x(i) * g(i)
  z(i) = w(i) * w(i)
}
def back(double(N) x, double(N) w, double(N) g, double a, double(N) y, double(N) d_y, double(N) d_z)
    -> (double(N) d_x, double(N) d_w, double(N) d_g, double d_a) {
  WAY
}"""
WAYS = {
    "sums": "d_x(i) = a * w(i) * g(i) * d_y(i)  d_w(i) = d_z(i) * w(i)  d_g(i) +=! y(i) * d_y(i)  "
    "d_a +=! w(i) * x(i) * g(i) * d_y(i)  d_g(i) += d_z(i)",
    "read": "d_x(i) = a * d_y(i)  d_w(i) = d_z(i)  d_w(i) = d_w(i) * w(i) + d_y(i)  d_g(i) = g(i)  "
    "d_a = 1",
    "loop": "for t in 0:3 { d_w(i) = (t + 1) * d_z(i) * w(i) }  d_x(i) = d_w(i) * x(i)  "
    "d_g(i) +=! d_y(i) * x(i)  d_a max=! y(i) * d_y(i)",
    "call": "t(i) = w(i) * d_y(i) * x(i)  d_w = twice(t)  d_x = twice(w)  d_g = twice(g)  "
    "d_a +=! t(i) * d_z(i)",
}


@sampled("way", ["read", "sums", "loop", "call"], keep=1)
@sampled("dims", [(0, None, None, None), (1, None, 0, None), (None, 0, None, 0)], keep=1, wide=1)
def test_gradients_by_what_elements_share_are_sums_over_the_batch(way: str, dims: Any) -> None:
    f = tct.define(SHARED.replace("WAY", WAYS[way]), "f", backward="back")
    torch.manual_seed(1)
    shapes = [[5], [5], [5], []]
    for shape, at in zip(shapes, dims, strict=True):
        shape[at or 0 : at or 0] = [] if at is None else [3]
    values = [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in shapes]
    weights = torch.randn(2, 3, 5, dtype=torch.float64)

    def one_by_one(*values: Any) -> Any:
        pairs = [*zip(values, dims, strict=True)]
        found = [f(*(v if d is None else v.select(d, b) for v, d in pairs)) for b in range(3)]
        return [torch.stack(r) for r in zip(*found, strict=True)]

    wanted = torch.autograd.grad(sum(map(torch.sum, map(torch.mul, one_by_one(*values), weights))),
                                 values)  # fmt: skip
    for over in (f.batched(dims), torch.vmap(f, dims)):
        total = sum(map(torch.sum, map(torch.mul, over(*values), weights)))
        torch.testing.assert_close(torch.autograd.grad(total, values), wanted)


def test_a_float_output_of_a_batch_has_an_adjoint_for_each_element() -> None:
    f = tct.define(SHARED.replace("WAY", WAYS["read"]), "f", backward="back")
    assert f.batched("x").out_dims == (0, 0)  # z as well, which is one for all
    with pytest.raises(TCTypeError) as caught:
        f.batched("x", out_dims={"z": None})
    assert str(caught.value) == (
        "f: 'z' cannot be without the batch, since the way back 'back' was written by hand and "
        "takes an adjoint for each element\n"
        "  let it have the batch at a dimension, as in out_dims={'z': 0}"
    )


@sampled("twice", [False, True], keep=1)
def test_per_sample_gradients_of_recorded_weights(twice: bool) -> None:
    text = """
    def scale(float(N) x, float(N) w) -> (y) { y(i) = x(i) * w(i) }
    def twice(float(N) x, float(N) w, float(N) d_y) -> (d_w) { d_w(i) = 2 * d_y(i) * x(i) }"""
    scale = tct.define(text, "scale", backward="twice")
    x, w = torch.randn(3, 5, requires_grad=True), torch.nn.Parameter(torch.ones(5))
    each = torch.vmap(torch.func.grad(lambda w, x: scale(x, w).sum()), in_dims=(None, 0))
    assert torch.equal(each(w, x), 2 * x)
    assert torch.equal(each(w.detach(), x.detach()), 2 * x)
    if twice:
        (again,) = torch.autograd.grad(each(w, x).sum(), x)  # of the way back it is derived
        assert torch.equal(again, torch.full((3, 5), 2.0))


@sampled("rank", [0, 1, 3], keep=1)
def test_a_rank_is_chosen_for_the_way_back_too(rank: int) -> None:
    squash = tct.define(SIGMOID, "squash", backward="back")
    x = torch.randn([3, 1, 2][:rank], dtype=torch.float64, requires_grad=True)
    for kernel in (squash.with_rank(rank), squash.with_shapes(x.shape)):
        (found,) = torch.autograd.grad(kernel(x).sum(), x)
        torch.testing.assert_close(found, x.sigmoid() * (1 - x.sigmoid()))
    if rank:
        over = squash.with_rank(rank - 1).batched("x")
        torch.testing.assert_close(torch.autograd.grad(over(x).sum(), x)[0], found)


def test_no_route_sums_up_a_gradient_that_has_not_the_shape_of_its_parameter() -> None:
    text = """
    def f(float(N,M) X, float(N,K) Z) -> (Y) { Y(i, j) = X(i, 0) * Z(i, j) }
    def back(float(N,M) X, float(N,K) Z, float(N,K) d) -> (d_X) { d_X(i, j) = d(i, j) * Z(i, j) }
    """
    f = tct.define(text, "f", backward="back")
    x, z = torch.randn(2, 1), torch.randn(2, 5)

    def total(x: Any) -> Any:
        return f(x, z).sum()

    def by_operator(x: Any) -> Any:
        return torch.ops.tcdsl.call(*f.spelled[0], "", [x.requires_grad_(), z])[0].sum().backward()

    for derived in (
        lambda x: total(x.requires_grad_()).backward(),
        by_operator,
        torch.func.grad(total),
        lambda x: torch.func.vmap(torch.func.grad(total))(x[None]),
    ):
        with pytest.raises(ShapeError, match=r"of the shape of X, \(2, 1\), got \(2, 5\)"):
            derived(x.clone())


@pytest.mark.wide
def test_what_only_a_call_shows_is_said_by_the_call() -> None:
    text = CONV.replace("double(N,C,H,W) d_I", "d_I").replace(
        "d_I(n, c, h + kh, w + kw) +=! d_O(n, m, h, w)", "d_I(n, c, h, w) +=! d_O(n, m, h, w)"
    )
    conv = tct.define(text, "conv", backward="conv_grad")
    x, k = torch.randn(1, 1, 4, 4).double(), torch.randn(1, 1, 2, 2).double()
    with pytest.raises(ShapeError, match=r"expected d_I of the shape of I, \(1, 1, 4, 4\), got"):
        conv(x.requires_grad_(), k).sum().backward()
