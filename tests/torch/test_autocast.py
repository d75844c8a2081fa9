"""Kernels under torch.autocast: what their arguments are cast to, and that training goes on."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from tcdsl.grammar.text.errors import TCTypeError
from tests.tiers import sampled

torch = pytest.importorskip("torch")
tct: Any = pytest.importorskip("tcdsl.torch")

pytestmark = [pytest.mark.torch, pytest.mark.cc]

DECLARED = """
def fcrelu(float(B,M) I, float(N,M) W, float(N) b) -> (O) {
  O(b_, n) +=! I(b_, m) * W(n, m)
  O(b_, n)  = fmax(O(b_, n) + b(n), 0)
}"""
ANY_TYPE = "def mul<T>(T(N) A, T(N) B) -> (C) { C(i) = A(i) * B(i) }"
BFLOAT16, FLOAT16, FLOAT32 = torch.bfloat16, torch.float16, torch.float32


def lowered() -> Any:
    return torch.autocast("cpu", dtype=BFLOAT16)


def arrays(*dtypes: Any) -> list[Any]:
    return [torch.linspace(-1, 2, 5).to(dtype) for dtype in dtypes]


def test_arguments_are_cast_to_what_the_text_declares() -> None:
    k = tct.define(DECLARED)
    x, w, b = torch.randn(4, 3).bfloat16(), torch.randn(5, 3), torch.randn(5).half()
    with lowered():
        y = k(x, w, b)
    assert y.dtype == FLOAT32
    torch.testing.assert_close(y, torch.relu(x.float() @ w.T + b.float()))


@pytest.mark.parametrize(
    ("policy", "given", "found"),
    [
        ("promote", (BFLOAT16, BFLOAT16), BFLOAT16),
        ("promote", (BFLOAT16, FLOAT32), FLOAT32),
        ("promote", (BFLOAT16, FLOAT16), FLOAT32),
        ("promote", (torch.float64, torch.float64), torch.float64),
        ("lower", (FLOAT32, FLOAT32), BFLOAT16),
        ("lower", (FLOAT16, FLOAT32), BFLOAT16),
        ("lower", (torch.float64, torch.float64), torch.float64),
        ("float32", (BFLOAT16, BFLOAT16), FLOAT32),
        ("float32", (torch.int32, torch.int32), torch.int32),
        (None, (BFLOAT16, BFLOAT16), BFLOAT16),
    ],
)
def test_a_type_variable_becomes_what_the_policy_says(policy: Any, given: Any, found: Any) -> None:
    k = tct.define(ANY_TYPE, autocast=policy)
    a, b = arrays(*given)
    for _ in range(2):  # the second call is not the first of its form
        with lowered():
            assert k(a, b).dtype == found
    assert k(a.to(found), b.to(found)).dtype == found


@pytest.mark.parametrize("policy", ["lower", "float32"])
def test_a_form_that_ran_outside_of_autocast_is_cast_inside(policy: str) -> None:
    k = tct.define(ANY_TYPE, autocast=policy)
    given, found = (FLOAT32, BFLOAT16) if policy == "lower" else (BFLOAT16, FLOAT32)
    a, b = arrays(given, given)
    for _ in range(3):
        assert k(a, b).dtype == given
    with lowered():
        assert k(a, b).dtype == found
        with torch.autocast("cpu", enabled=False):
            assert k(a, b).dtype == given
    assert k(a, b).dtype == given


def test_without_a_policy_other_types_are_refused_as_ever() -> None:
    a, b = arrays(BFLOAT16, FLOAT32)
    with lowered(), pytest.raises(TCTypeError):
        tct.define(ANY_TYPE, autocast=None)(a, b)
    with pytest.raises(TCTypeError):
        tct.define(ANY_TYPE)(a, b)  # outside of autocast


def test_integers_numbers_and_float64_are_not_cast() -> None:
    text = """def pick(float(N) X, int64(K) I, float scale) -> (Y) { Y(k) = X(I(k)) * scale }"""
    k = tct.define(text)
    x, i = torch.arange(4.0).bfloat16(), torch.tensor([3, 0])
    with lowered():
        torch.testing.assert_close(k(x, i, 2.0), torch.tensor([6.0, 0.0]))
        torch.testing.assert_close(k(x, i, torch.tensor(2.0)), torch.tensor([6.0, 0.0]))
        with pytest.raises(TCTypeError):
            k(x.double(), i, 2.0)


def test_out_is_written_under_autocast() -> None:
    a, b = arrays(BFLOAT16, FLOAT32)
    out = torch.empty(5)
    with lowered():
        tct.define(ANY_TYPE)(a, B=b, out=out)
    torch.testing.assert_close(out, a.float() * b)


def test_gradients_come_in_the_types_of_the_arguments() -> None:
    k = tct.define(DECLARED)
    x = torch.randn(4, 3).bfloat16().requires_grad_()
    w, b = torch.randn(5, 3, requires_grad=True), torch.randn(5, requires_grad=True)
    with lowered():
        loss = k(x, w, b).square().sum()
    loss.backward()
    assert (x.grad.dtype, w.grad.dtype, b.grad.dtype) == (BFLOAT16, FLOAT32, FLOAT32)
    again = [t.detach().clone().requires_grad_() for t in (x, w, b)]
    y, p, q = again
    torch.relu(y.float() @ p.T + q).square().sum().backward()
    for ours, theirs in zip((x, w, b), again, strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)


@sampled("steps", [2, 30], keep=1)
def test_a_model_with_a_layer_between_linear_ones_trains_under_autocast(steps: int) -> None:
    torch.manual_seed(0)
    layer = tct.nn.TC(DECLARED, parameters={"W": (16, 8), "b": (16,)})
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), layer, torch.nn.Linear(16, 1))
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    x = torch.randn(64, 4)
    target = x.sum(1, keepdim=True).tanh()
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        with lowered():
            y = model(x)
            loss = torch.nn.functional.mse_loss(y.float(), target)
        assert y.dtype == BFLOAT16
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    assert losses[-1] < (0.5 if steps == 30 else 1) * losses[0]
    assert all(p.grad.dtype == FLOAT32 for p in model.parameters())


def test_the_policy_goes_where_the_kernel_goes() -> None:
    k = tct.define(ANY_TYPE, autocast="float32")
    a, b = arrays(BFLOAT16, BFLOAT16)
    ways = [k, copy.deepcopy(k), pickle.loads(pickle.dumps(k)), k.with_tune("off")]
    with lowered():
        assert [way(a, b).dtype for way in ways] == [FLOAT32] * len(ways)


def test_a_policy_that_is_none_or_decides_nothing_is_refused() -> None:
    with pytest.raises(TCTypeError, match=r"autocast is 'half'; expected 'promote', 'lower'"):
        tct.define(ANY_TYPE, autocast="half")
    with pytest.raises(TCTypeError, match=r"declares all types.*\n.*def fcrelu<T>"):
        tct.define(DECLARED, autocast="lower")


def test_transforms_see_the_casts() -> None:
    k = tct.define(DECLARED)
    x, w, b = torch.randn(4, 3).bfloat16(), torch.randn(5, 3), torch.randn(5)
    with lowered():
        found = torch.func.grad(lambda x: k(x, w, b).sum())(x)
        each = torch.func.vmap(k, (0, None, None))(x[None], w, b)
    expected = torch.func.grad(lambda x: torch.relu(x.float() @ w.T + b).sum())(x)
    torch.testing.assert_close(found, expected)
    assert (found.dtype, each.dtype) == (BFLOAT16, FLOAT32)


@pytest.mark.wide
def test_a_compiled_call_sees_the_casts() -> None:
    k = tct.define(DECLARED)
    x, w, b = torch.randn(4, 3).bfloat16(), torch.randn(5, 3), torch.randn(5)
    with lowered():
        y = torch.compile(k, fullgraph=True, backend="aot_eager")(x, w, b)
    torch.testing.assert_close(y, k(x.float(), w, b))
