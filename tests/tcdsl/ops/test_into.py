"""Results are written into tensors of the caller's, ``out=``, as PyTorch's functions do."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np
import pytest

from tcdsl import library
from tcdsl.core import Op
from tcdsl.ops.into import TAKING
from tcdsl.ops.table import PUBLIC
from tests.tiers import sampled

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.cc]

VALUES = [[1.0, 5.0, 2.0], [4.0, 3.0, 6.0]]
PLACES = [[0, 2, 1], [1, 1, 0]]
# Arguments, of a matrix x and places i in it, and the types of what is given for the results.
CALLS: list[tuple[str, str, str]] = [
    ("sum", "x, 0", "float32"),
    ("max", "x, 0", "float32 int64"),
    ("cumsum", "x, 1", "float64"),
    ("gather", "x, 1, i", "float32"),
    ("matmul", "x, x.t()", "float32"),
    ("prod", "x, 0", "int32"),
    ("mean", "x, 1, True", "float64"),
    ("nansum", "x, 1", "float64"),
    ("nanmean", "x, 1", "float64"),
    ("max", "x, -x", "float32"),
    ("min", "x, 1, True", "float32 int64"),
    ("max", "x", "float32"),
    ("median", "x, 1", "float32 int64"),
    ("mode", "x, 0", "float32 int64"),
    ("kthvalue", "x, 2, 1", "float32 int64"),
    ("topk", "x, 2", "float32 int64"),
    ("sort", "x, 0", "float32 int64"),
    ("cummax", "x, 1", "float32 int64"),
    ("std", "x, 0", "float32"),
    ("var", "x, 0", "float64"),
    ("norm", "x, 2, 0", "float32"),
    ("amax", "x, 0", "float32"),
    ("argmax", "x, 0", "int64"),
    ("any", "x > 4, 0", "bool"),
    ("all", "x > 0, 1", "bool"),
    ("cumprod", "x, 0", "float32"),
    ("cross", "x, x.flip(0), 1", "float32"),
    ("diag", "x", "float32"),
    ("index_select", "x, 0, i[1]", "float32"),
    ("masked_select", "x, x > 2", "float32"),
    ("nonzero", "x > 2", "int64"),
    ("renorm", "x, 2, 0, 1.0", "float32"),
    ("take", "x, i", "float32"),
    ("tril", "x", "float32"),
    ("triu", "x, 1", "float32"),
    ("where", "x > 2, x, -x", "float32"),
    ("logsumexp", "x, 1", "float32"),
    ("softmax", "x, 0", "float32"),
    ("quantile", "x, 0.4", "float32"),
    ("searchsorted", "x[:1, [0, 2, 1]].sort()[0][0], x", "int64"),
    ("scatter", "x, 1, i, 9.0", "float32"),
    ("frexp", "x", "float32 int32"),
    ("hstack", "[x, x]", "float32"),
    ("kron", "x, x", "float32"),
    ("floor_divide", "x, 2", "float32"),
    ("bernoulli", "x > 2.5", "int64"),
]


def _made(t: Any, name: str, arguments: str, types: str) -> list[Any]:
    names = {"x": t.tensor(VALUES), "i": t.tensor(PLACES)}
    if name == "bernoulli":
        arguments = f"({arguments}).to(x.dtype)"
    args = eval(f"({arguments},)", names)
    outs = [t.empty(0, dtype=getattr(t, dtype)) for dtype in types.split()]
    result = getattr(t, name)(*args, out=outs[0] if len(outs) == 1 else tuple(outs))
    results = [result] if len(outs) == 1 else list(result)
    assert all(a is b for a, b in zip(results, outs, strict=True))
    return [o.numpy() for o in outs]


@sampled("name, arguments, types", CALLS, keep=4)
def test_results_are_written_as_pytorch_writes_them(name: str, arguments: str, types: str) -> None:
    for mine, theirs in zip(
        *(_made(t, name, arguments, types) for t in (library, torch)), strict=True
    ):
        assert mine.dtype == theirs.dtype
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)


def test_all_that_take_out_are_public_and_have_it_once() -> None:
    assert {*PUBLIC} >= TAKING
    for name in TAKING:
        function = PUBLIC[name]
        by_name: Any = function.named if isinstance(function, Op) else function
        assert by_name.names["out"] is None, name
        assert "out" not in signature(by_name.__wrapped__).parameters, name


def test_what_may_not_be_written_is_refused() -> None:
    x = library.tensor(VALUES, requires_grad=True)
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        library.max(x, 0, out=(library.empty(0), library.empty(0, dtype=library.int64)))
    y = x.detach()
    with pytest.raises(TypeError, match=r"sum\(\): argument 'out' must be Tensor, not int"):
        library.sum(y, 0, out=3)
    with pytest.raises(RuntimeError, match="Float can't be cast to the desired output type Long"):
        library.logsumexp(y, 0, out=library.zeros(3, dtype=library.int64))
    with pytest.raises(TypeError, match="has 2 results"):
        library.sort(y, out=library.empty(0))
    with library.no_grad():
        assert library.sum(x, axis=1, out=library.empty(0)).tolist() == [8, 13]
    assert library.sum(y, 1, out=None).tolist() == [8, 13]
    assert library.cumsum(y, 1, out=y) is y  # over what is read
    assert y.tolist() == [[1, 6, 8], [4, 7, 13]]


@pytest.mark.wide
def test_sums_of_what_is_no_nan_have_a_type_and_truths_over_no_dimensions_are_each_ones() -> None:
    for t in (library, torch):
        x = t.tensor([[1.0, float("nan"), 3.0]])
        made = t.nansum(x, 0, dtype=t.float64), t.nansum(x, 1, dtype=t.uint8), t.nanmean(x, 1)
        assert [m.tolist() for m in made] == [[1, 0, 3], [4], [2]]
        assert [m.dtype for m in made] == [t.float64, t.uint8, t.float32]
        assert t.any(x > 2, ()).tolist() == [[False, False, True]]
        assert t.all(x > 2, dim=[]).tolist() == [[False, False, True]]


def test_results_of_another_type_are_converted_where_pytorch_does_so() -> None:
    calls = [
        ("amax", "x, 0", "float64"),
        ("argmax", "x, 0", "int32"),
        ("all", "x, 0", "float32"),
        ("all", "x, 0", "uint8"),
        ("gather", "x, 1, i", "float64"),
        ("max", "x, 0", "float64 int64"),
        ("max", "x, -x", "float64"),
        ("matmul", "x, x.t()", "float64"),
        ("nonzero", "x", "float32"),
        ("prod", "x, 0", "float64"),
        ("vstack", "[x, x]", "float64"),
    ]

    def told(t: Any, call: tuple[str, str, str]) -> Any:
        try:
            return [o.tolist() for o in _made(t, *call)]
        except RuntimeError:
            return "refused"

    for call in calls:
        assert told(library, call) == told(torch, call), call
    for t in (library, torch):
        x = t.tensor(VALUES)
        with pytest.raises(RuntimeError):
            t.sum(x, 0, dtype=t.float64, out=t.empty(3))
        with pytest.raises(TypeError, match="must be Tensor, not tuple"):
            t.sum(x, 0, out=(t.empty(3),))
        with pytest.raises(RuntimeError, match="float_power_"):
            x.float_power_(2)


def test_a_result_of_another_shape_warns_where_it_is_written() -> None:
    for t in (library, torch):
        x, out = t.tensor(VALUES), t.zeros(5)
        with pytest.warns(UserWarning, match=r"resized since it had shape \[5\].* \[3\]") as seen:
            t.amax(x, 0, out=out)
        assert seen[0].filename == __file__
        assert out.tolist() == [4, 5, 6]


def test_truths_and_places_of_what_requires_grad_may_be_written() -> None:
    for t in (library, torch):
        x = t.tensor(VALUES, requires_grad=True)
        calls = [
            (t.argmax, (x, 1), t.int64),
            (t.all, (x, 1), t.bool),
            (t.isin, (x, x), t.bool),
            (t.gt, (x, 3), t.bool),
        ]
        for function, args, dtype in calls:
            for _ in range(2):  # the second may go another way
                out = t.empty(0, dtype=dtype)
                assert function(*args, out=out) is out
                assert out.tolist() == function(*args).tolist()
                out = t.empty_like(out)
                assert function(*args, out=out).tolist() == function(*args).tolist()
        out = t.empty(2, 3)
        assert t.add(x.detach(), 1, out=out).tolist() == t.add(x.detach(), 1, out=out).tolist()
        for function in (t.add, t.mul):
            with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
                function(x, 1, out=out)
        with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
            t.sum(x.detach(), 0, out=t.empty(3, requires_grad=True))


def test_results_are_written_in_blocks_of_inference_and_of_autocast() -> None:
    for t in (library, torch):
        with t.inference_mode():
            x = t.tensor(VALUES)
            assert t.sum(x, 0, out=t.empty(0)).tolist() == [5, 8, 8]
            assert t.empty(2).resize_(3).shape == (3,)
        with t.autocast("cpu", dtype=t.bfloat16):
            made = t.matmul(x + 0.001, x.t(), out=t.empty(0))
        assert made.dtype == t.float32
        assert made[0, 0].item() == pytest.approx(30.008, rel=1e-6)
