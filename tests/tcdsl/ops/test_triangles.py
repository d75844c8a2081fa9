"""Triangles of many elements, which are written as bits: as torch has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tcdsl
from tests.tiers import sampled

pytestmark = [pytest.mark.cc, pytest.mark.torch]

tc: Any = tcdsl  # names that are found when they are asked for
DTYPES = ("float32", "float64", "bfloat16", "float16", "bool", "int64")
FORMS = {
    "a matrix": lambda t: t,
    "more rows": lambda t: t.reshape(-1, 61),
    "more columns": lambda t: t.reshape(61, -1),
    "a batch": lambda t: t.reshape(3, -1, 61),
    "transposed": lambda t: t.t(),
    "with gaps": lambda t: t[:, ::2],
}


CASES = [(f, d) for f in FORMS for d in DTYPES]


@sampled("case", CASES, keep=3, wide=12)
def test_what_is_beside_a_diagonal_is_zero(case: tuple[str, str]) -> None:
    form, dtype = case
    torch = pytest.importorskip("torch")
    values = np.random.default_rng(0).standard_normal((183, 183)).astype(np.float32)
    values[::7, ::5], values[::11, ::3], values[1::6, ::4] = np.nan, -np.inf, -0.0
    if dtype in ("bool", "int64"):
        values = np.nan_to_num(values, neginf=-3)
    for name in ("tril_", "triu_"):
        for diagonal in (0, 1, -5, 70, -300, 300):
            theirs, ours = (
                FORMS[form](m.from_numpy(values.copy()).to(getattr(m, dtype))) for m in (torch, tc)
            )
            version = ours._version
            found = getattr(ours, name)(diagonal)
            assert found is ours
            assert ours._version > version
            getattr(theirs, name)(diagonal)
            expected = theirs.double().numpy()
            assert np.array_equal(ours.double().numpy(), expected, equal_nan=True)
            zeros = np.signbit(ours.double().numpy()) == np.signbit(expected)
            assert (zeros | np.isnan(expected)).all()


def test_recorded_and_refused_as_of_few() -> None:
    def gradient(side: int) -> list[float]:
        x = tc.ones(side, side, requires_grad=True)
        y = x * 2
        y.tril_(-1)
        (y * y).sum().backward()
        return x.grad[:3, :3].tolist()  # type: ignore[no-any-return]

    assert gradient(3) == gradient(200)
    for side in (3, 200):
        leaf = tc.ones(side, side, requires_grad=True)
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
            leaf.tril_()
        with tc.no_grad():
            view = leaf[:]
        with pytest.raises(RuntimeError, match="no_grad mode"):
            view.triu_()
        with tc.inference_mode():
            made = tc.ones(side, side)
        with pytest.raises(RuntimeError, match="inference tensor"):
            made.tril_()
        with pytest.raises(RuntimeError, match="more than one element"):
            tc.ones(side, 1).expand(side, side).tril_()
        with pytest.raises(RuntimeError, match="at least 2 dimensions"):
            tc.ones(side**2).tril_()
