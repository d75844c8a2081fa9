"""Kernels inside torch.func: grad, vjp and vmap, against torch's own operators there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.tiers import sampled

torch = pytest.importorskip("torch")
tct: Any = pytest.importorskip("tcdsl.torch")

from torch.func import (  # noqa: E402 - torch may be missing
    functional_call,
    grad,
    grad_and_value,
    jacrev,
    jvp,
    vjp,
    vmap,
)

from tcdsl.grammar.text.errors import NumberError, TCTypeError  # noqa: E402
from tcdsl.torch import native, operator, transforms  # noqa: E402
from tests.torch.cases import CASES, SOME, Case, listed, total  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.cc]

SQUARE = "def square(float(N) x) -> (y) { y(i) = x(i) * x(i) }"
DROPOUT = """
def dropout(float(N) x, uint64 seed) -> (y) { y(i) = rand(seed, i) < 0.5 ? 2 * x(i) : 0 }"""

forward_ad: Any = torch.autograd.forward_ad
same = torch.testing.assert_close
wide = pytest.mark.wide
OFTEN = {"softmax", "bag", "recurrent"}
cases = pytest.mark.parametrize(
    "case",
    [
        pytest.param(c, marks=() if c in SOME else wide if c.name in OFTEN else pytest.mark.deep)
        for c in CASES
    ],
    ids=str,
)
long_cases = pytest.mark.parametrize(
    "case",
    [
        pytest.param(c, marks=wide if c.name in {"scaled", "softmax"} else pytest.mark.deep)
        for c in CASES
    ],
    ids=str,
)


def both(case: Case) -> tuple[Callable[..., Any], Callable[..., Any]]:
    return case.kernel, case.reference


def agree(case: Case, derive: Callable[[Callable[..., Any]], Any]) -> None:
    """Hold what is made of the kernel against what is made of the reference."""
    ours, theirs = map(derive, both(case))
    same(ours, theirs, check_stride=False)


@cases
def test_grad_by_each_argument_and_by_all(case: Case) -> None:
    values = case.values()
    agree(case, lambda f: grad(total(f), case.floats)(*values))
    agree(case, lambda f: grad_and_value(total(f), case.floats[0])(*values))


@cases
def test_vjp_is_pulled_inside_and_outside_of_its_transform(case: Case) -> None:
    values = case.values()
    floats = case.floats

    def pulled(f: Callable[..., Any]) -> Any:
        def of_floats(*xs: Any) -> Any:
            filled = [*values]
            for place, x in zip(floats, xs, strict=True):
                filled[place] = x
            return listed(f(*filled))[0]

        found: Any = vjp(of_floats, *(values[i] for i in floats))
        y, pull = found
        adjoint = y.detach().cos()
        return pull(adjoint), pull(2 * adjoint)

    agree(case, pulled)


@cases
def test_vmap_over_each_argument_and_over_all(case: Case) -> None:
    one, four = case.values(), case.values(4, seed=2)
    for places in [(i,) for i in case.floats] + [case.floats]:
        values = [four[i] if i in places else one[i] for i in range(len(one))]
        agree(case, lambda f: tuple(listed(vmap(f, case.in_dims(*places))(*values))))  # noqa: B023


@cases
def test_per_sample_gradients(case: Case) -> None:
    one, four = case.values(), case.values(4, seed=2)
    values = [four[0], *one[1:]]
    agree(case, lambda f: vmap(grad(total(f), case.floats), case.in_dims(0))(*values))


@cases
def test_grad_of_vmap(case: Case) -> None:
    one, four = case.values(), case.values(4, seed=2)
    values = [four[0], *one[1:]]

    def loss(f: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *v: vmap(total(f), case.in_dims(0))(*v).square().sum()

    agree(case, lambda f: grad(loss(f), case.floats)(*values))


@cases
def test_jacrev(case: Case) -> None:
    values = case.values()
    agree(case, lambda f: jacrev(lambda *v: listed(f(*v))[0], case.floats)(*values))


@cases
def test_second_derivatives_by_reverse_mode(case: Case) -> None:
    values = case.values()
    agree(case, lambda f: jacrev(jacrev(total(f), case.floats), case.floats)(*values))


@long_cases
def test_mixed_derivatives_where_each_transform_asks_for_another_argument(case: Case) -> None:
    values = case.values()
    pairs = [(i, j) for i in case.floats for j in case.floats if i < j]
    for i, j in pairs:
        agree(case, lambda f: jacrev(jacrev(total(f), i), j)(*values))  # noqa: B023
        agree(case, lambda f: jacrev(jacrev(total(f), j), i)(*values))  # noqa: B023


@long_cases
def test_derivatives_of_per_sample_gradients(case: Case) -> None:
    one, four = case.values(), case.values(3, seed=2)
    values = [four[0], *one[1:]]

    def penalty(f: Callable[..., Any]) -> Callable[..., Any]:
        each = vmap(grad(total(f), case.floats), case.in_dims(0))
        return lambda *v: sum(g.square().sum() for g in each(*v))

    agree(case, lambda f: grad(penalty(f), case.floats)(*values))


def test_the_route_of_transforms_is_taken_only_inside_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken = []
    for module, entry in ((native, "apply"), (operator, "call"), (transforms, "call")):
        name = module.__name__.rpartition(".")[2]
        seen = getattr(module, entry)

        def call(*args: Any, name: str = name, seen: Any = seen) -> Any:
            taken.append(name)
            return seen(*args)

        monkeypatch.setattr(module, entry, call)
    k = tct.define(SQUARE)
    x = torch.arange(3.0)
    k(x)
    assert taken == []
    grad(lambda x: k(x).sum())(x)
    vmap(k)(x[None])
    assert taken == ["transforms"] * 2
    k(x.requires_grad_())
    assert taken == ["transforms", "transforms", "native"]


def test_vmap_takes_chunks() -> None:
    x = torch.randn(5, 4)
    same(vmap(tct.define(SQUARE), chunk_size=3)(x), x * x)


@pytest.mark.wide
def test_vmap_takes_dims() -> None:
    case = CASES[0]
    _, w, b = case.values()
    xs, ws, bs = case.values(5, seed=2)
    agree(case, lambda f: vmap(f, (2, None, None), out_dims=1)(xs.movedim(0, 2), w, b))
    agree(case, lambda f: vmap(f, (-1, 1, 0))(xs.movedim(0, -1), ws.movedim(0, 1), bs))


@pytest.mark.deep
def test_vmap_is_nested() -> None:
    case = CASES[0]
    _, w, b = case.values()
    xs, ws, bs = case.values(5, seed=2)
    agree(case, lambda f: vmap(vmap(f, (None, 0, None)), (0, None, None))(xs, ws, b))
    agree(case, lambda f: vmap(vmap(f), (0, None, None), out_dims=2)(xs[None], ws, bs))
    agree(case, lambda f: vmap(lambda x: f(x, w, b))(xs))


def test_vmap_of_strided_and_empty_batches() -> None:
    k = tct.define(SQUARE)
    x = torch.randn(7, 6)
    same(vmap(k)(x[::2, 1::2]), x[::2, 1::2].square())
    same(vmap(k)(x[:1].expand(4, 6)), x[:1].expand(4, 6).square(), check_stride=False)
    assert vmap(k)(x[:0]).shape == (0, 6)


@pytest.mark.wide
def test_parameters_and_buffers_of_a_layer_go_through_functional_call() -> None:
    layer = tct.nn.TC(CASES[0].text, parameters={"W": (3, 7), "b": (3,)})
    values = {n: p.detach() for n, p in layer.named_parameters()}
    x = torch.randn(4, 5, 7, dtype=torch.float64)

    def loss(p: Any, x: Any) -> Any:
        return functional_call(layer, p, (x,)).square().sum()

    def reference(p: Any, x: Any) -> Any:
        return CASES[0].reference(x, p["W"], p["b"]).square().sum()

    for f in (grad, jacrev):
        same(f(loss)(values, x[0]), f(reference)(values, x[0]))
    same(vmap(grad(loss), (None, 0))(values, x), vmap(grad(reference), (None, 0))(values, x))
    same(grad(lambda x: loss({}, x))(x[0]), grad(lambda x: reference(values, x))(x[0]))  # its own


@sampled("learns", [False, True], keep=1)
def test_layers_are_ensembled_by_stack_module_state(learns: bool) -> None:
    layers = [
        tct.nn.TC(CASES[0].text, parameters={"W": (3, 7), "b": (3,)}, init="normal")
        for _ in range(3)
    ]
    parameters, buffers = torch.func.stack_module_state(layers)
    x = torch.randn(5, 7, dtype=torch.float64)

    def run(p: Any, b: Any, x: Any) -> Any:
        return functional_call(layers[0], (p, b), (x,))

    found = vmap(run, (0, 0, None))(parameters, buffers, x)
    same(found, torch.stack([layer(x) for layer in layers]))
    if not learns:
        return
    found.sum().backward()  # the stacked parameters are leaves: the batch is recorded
    alone = [torch.autograd.grad(layer(x).sum(), layer.W)[0] for layer in layers]
    same(parameters["W"].grad, torch.stack(alone))


@sampled("over", ["seed", "x"], keep=1)
def test_vmap_of_random_numbers_obeys_its_flag(over: str) -> None:
    k = tct.define(DROPOUT)
    x, seeds = torch.ones(3, 20), torch.tensor([1, 2, 3])
    if over == "seed":  # its own numbers for each, whatever the flag says
        expected = torch.stack([k(x[0], int(s)) for s in seeds])
        for flag in ("error", "same", "different"):
            same(vmap(k, (0, 0), randomness=flag)(x, seeds), expected)
        return
    with pytest.raises(TCTypeError, match=r"randomness='error'\n.*its own seed"):
        vmap(lambda x: k(x, 7))(x)
    one = k(x[0], 7)
    same(vmap(lambda x: k(x, 7), randomness="same")(x), torch.stack([one] * 3))
    found = vmap(lambda x: k(x, 7), randomness="different")(x)
    assert len({tuple(row.tolist()) for row in found}) == 3


@sampled("flag", ["error", "same", "different"], keep=1)
def test_a_batch_of_directions_meets_the_numbers_of_the_one_pass(flag: str) -> None:
    k, x = tct.define(DROPOUT), torch.ones(20)
    y, pull = torch.func.vjp(lambda x: k(x, 7), x)
    (rows,) = vmap(pull, randomness=flag)(torch.eye(20))
    same(rows.diagonal(), y)
    (nested,) = vmap(vmap(pull, randomness=flag), randomness=flag)(torch.eye(20)[None])
    same(nested[0], rows)
    found, slopes = vmap(lambda d: torch.func.jvp(lambda x: k(x, 7), (x,), (d,)), randomness=flag)(
        torch.eye(20)
    )
    same(slopes.diagonal(), y)
    same(found, torch.stack([y] * 20) if found.ndim == 2 else y)
    same(torch.func.jacrev(lambda x: k(x, 7))(x).diagonal(), y)


def test_random_numbers_of_a_callee_are_asked_for_too() -> None:
    k = tct.define(DROPOUT + "def twice(float(N) x, uint64 seed) -> (y) "
                   "{ z = dropout(x, seed) y(i) = 2 * z(i) }", "twice")  # fmt: skip
    x = torch.ones(3, 20)
    with pytest.raises(TCTypeError, match=r"randomness='error'"):
        vmap(lambda x: k(x, 7))(x)
    found = vmap(lambda x: k(x, 7), randomness="different")(x)
    assert len({tuple(row.tolist()) for row in found}) == 3


@pytest.mark.parametrize("route", ["kernel", "operator", pytest.param("compiled", marks=wide)])
def test_derivatives_inside_a_batch_of_subscripts(route: str) -> None:
    k = tct.define("def f(double(N) x, int32 s) -> (y) { y(n) = x(s) * x(n) }")

    def call(x: Any, s: Any) -> Any:
        return (
            torch.ops.tcdsl.call(*k.spelled[0], "", [x, s])[0] if route == "operator" else k(x, s)
        )

    def slopes(x: Any, s: Any) -> Any:
        back = grad(lambda x: call(x, s).sum())(x)
        return back, jvp(lambda x: call(x, s), (x,), (x.sin(),))[1]

    over = vmap(slopes, (None, 0))
    if route == "compiled":
        over = torch.compile(over, backend="aot_eager", fullgraph=True)
    x, at = torch.randn(5, dtype=torch.float64), torch.tensor([1, 4, 3], dtype=torch.int32)
    eye = torch.eye(5, dtype=torch.float64)
    backs, forths = over(x, at)
    for s, back, forth in zip(at.tolist(), backs, forths, strict=True):
        same(back, x[s] + x.sum() * eye[s])
        same(forth, x[s] * x.sin() + x * x[s].sin())
    if route != "compiled":
        for s in (1, 0):  # whichever element it is
            wrong = at.clone()
            wrong[s] = 5
            with pytest.raises(IndexError, match=r"subscript 0 of 'x' is 5, outside \[0, 5\)"):
                over(x, wrong)
    first = tct.define("def f(double(N) x, int32 s) -> (y) { y +=! x(n) where n in 0:s }")
    with pytest.raises(TCTypeError, match="TC160"):
        vmap(grad(first), (None, 0))(x, at)


@pytest.mark.wide
def test_numbers_of_a_batch_have_the_type_of_their_parameter() -> None:
    k = tct.define("def shift(int8(N) x, int8 by, float a) -> (y) { y(i) = a * float(x(i) + by) }")
    x = torch.arange(3, dtype=torch.int8)
    by = torch.tensor([1, -5])
    a = torch.tensor([0.5, 2.0], dtype=torch.float64)
    expected = torch.stack([a_ * (x + b_).float() for a_, b_ in zip(a, by, strict=True)]).float()
    same(vmap(k, (None, 0, 0))(x, by, a), expected)
    same(vmap(k, (None, 0, None))(x, by.bool(), 2.0), torch.stack([2.0 * (x + 1)] * 2))
    with pytest.raises(NumberError, match="'by' is 300, outside of int8"):
        vmap(k, (None, 0, None))(x, torch.tensor([0, 300]), 1.0)
    d = grad(lambda a: k(x, 1, a).sum())(a[0])
    assert (d.dtype, d.item()) == (torch.float64, 6.0)


def test_a_number_that_ranges_depend_on_is_shared_by_a_batch() -> None:
    k = tct.define("def head(double(N) x, int32 n) -> (s) { s +=! x(i) where i in 0:n }")
    x, n = torch.arange(5.0, dtype=torch.float64), torch.tensor(3)
    same(grad(k)(x, n), torch.tensor([1.0, 1, 1, 0, 0], dtype=torch.float64))
    same(vmap(k, (0, None))(torch.stack([x, 2 * x]), n), torch.tensor([3.0, 6.0]).double())
    for derive in (lambda f: f, grad):
        with pytest.raises(TCTypeError, match="'n' cannot be batched: ranges depend on it"):
            vmap(derive(k), (None, 0))(x, torch.tensor([1, 2]))


def test_what_transforms_cannot_see_is_refused() -> None:
    k = tct.define(SQUARE)
    x, out = torch.randn(2, 3), torch.empty(3)
    with pytest.raises(TCTypeError, match="takes no out="):
        vmap(lambda x: k(x, out=out))(x)
    with pytest.raises(TCTypeError, match="takes no out="):
        grad(lambda x: k(x, out=out).sum())(x[0])


def test_integer_outputs_have_no_derivative_and_integer_kernels_run() -> None:
    k = tct.define("def best(float(N,M) x) -> (A) { A(n) argmax=! x(n, m) }")
    x = torch.randn(3, 4)
    assert grad(lambda x: (x[:, 0] * k(x)).sum())(x)[:, 0].tolist() == x.argmax(1).tolist()
    same(vmap(k)(x[None]), x[None].argmax(-1))


@pytest.mark.wide
def test_an_output_that_nobody_uses_gives_no_adjoint() -> None:
    k = tct.define("def two(double(N) x) -> (y, z) { y(i) = x(i) * x(i)  z(i) = exp(x(i)) }")
    x = torch.randn(4, dtype=torch.float64)
    same(grad(lambda x: k(x).y.sum())(x), 2 * x)
    same(hessian_by_reverse(lambda x: k(x)[1].sum())(x), torch.diag(x.exp()))


def hessian_by_reverse(f: Callable[..., Any]) -> Callable[..., Any]:
    found: Callable[..., Any] = jacrev(jacrev(f))
    return found


def test_under_no_grad_nothing_is_recorded() -> None:
    k = tct.define(SQUARE)
    x = torch.randn(3)

    def f(x: Any) -> Any:
        with torch.no_grad():
            held = k(x)
        return (held * x).sum()

    same(grad(f)(x), x.square())


BY_HAND = """
def straight(float(N) x) -> (y) { y(i) = x(i) > 0 ? 1.0 : 0.0 }
def back(float(N) x, float(N) y, float(N) d_y) -> (d_x) { d_x(i) = d_y(i) * (2 + y(i)) }"""


@sampled("deeper", [False, True], keep=1)
def test_a_way_back_by_hand_is_the_one_that_transforms_take(deeper: bool) -> None:
    k = tct.define(BY_HAND, "straight", backward="back")
    x = torch.tensor([1.0, -1.0, 3.0])
    expected = torch.tensor([3.0, 2.0, 3.0])
    same(grad(lambda x: k(x).sum())(x), expected)
    with pytest.raises(TCTypeError, match="way back is written by hand"):
        jvp(k, (x,), (x,))
    if not deeper:
        return
    same(vmap(grad(lambda x: k(x).sum()))(x[None]), expected[None])
    same(jacrev(k)(x), torch.diag(expected))
    # the way back is a function of y too, whose derivative is by hand again
    again = grad(lambda x: (grad(lambda x: k(x).sum())(x) * x).sum())(x)
    same(again, expected + x * expected)
    same(grad(lambda x: vmap(k)(x[None]).sum())(x), expected)
    for derive in (
        lambda: jvp(vmap(k), (x[None],), (x[None],)),
        lambda: vmap(lambda x: jvp(k, (x,), (x,))[1])(x[None]),
    ):
        with pytest.raises(TCTypeError, match="way back is written by hand"):
            derive()
    same(vmap(k)(x[None]), torch.tensor([[1.0, 0.0, 1.0]]))
