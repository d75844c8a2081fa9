"""`tcdsl.linalg` agrees with `torch.linalg`: values and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tcdsl import library, linalg
from tests.tcdsl.ops.calls import tensor
from tests.tiers import sampled

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.cc]

RNG = np.random.default_rng(3)
SQUARE = RNG.standard_normal((2, 4, 4)) + 4 * np.eye(4)
TALL, WIDE = RNG.standard_normal((5, 3)), RNG.standard_normal((2, 3, 5))
POSITIVE = SQUARE @ np.swapaxes(SQUARE, -2, -1)
VECTOR = RNG.standard_normal(4)
INF = float("inf")
CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    *(("vector_norm", (WIDE, p, d), {}) for p in (0.5, 1, 2, 3, INF, -INF) for d in (None, (0, 2))),
    *(("matrix_norm", (WIDE, p), {"keepdim": k}) for p in ("fro", "nuc", 1, -1, 2, -2, INF, -INF)
      for k in (False, True)),
    ("matrix_norm", (WIDE, 1, (2, 0)), {}),
    ("norm", (WIDE,), {}), ("norm", (TALL, "nuc"), {}), ("norm", (VECTOR, 3), {}),
    ("norm", (WIDE, 2, 1), {}), ("norm", (WIDE, INF, (0, 1)), {}),
    ("inv", (SQUARE,), {}), ("det", (SQUARE,), {}), ("slogdet", (SQUARE,), {}),
    ("pinv", (TALL,), {}), ("matrix_power", (SQUARE, -3), {}), ("cholesky", (POSITIVE,), {}),
    ("cholesky", (POSITIVE,), {"upper": True}), ("svdvals", (WIDE,), {}),
    ("eigvalsh", (POSITIVE,), {}), ("eigvalsh", (POSITIVE, "U"), {}),
    ("solve", (SQUARE, VECTOR), {}), ("solve", (SQUARE, SQUARE[:, :, :2].copy()), {}),
    ("solve", (SQUARE, SQUARE[:, :2].copy()), {"left": False}),
    ("solve", (SQUARE, SQUARE[:, 0].copy()), {}),
    ("solve_triangular", (np.triu(SQUARE), SQUARE), {"upper": True}),
    ("solve_triangular", (np.tril(SQUARE), SQUARE), {"upper": False, "left": False}),
    ("lstsq", (TALL, RNG.standard_normal((5, 2))), {}),
    ("lstsq", (WIDE, RNG.standard_normal((2, 3, 2))), {}),
    ("matrix_rank", (np.ones((2, 3, 3)),), {}), ("cond", (SQUARE,), {}),
    ("multi_dot", ([TALL, WIDE[0], RNG.standard_normal((5, 2))],), {}),
    ("multi_dot", ([VECTOR, SQUARE[0], VECTOR],), {}), ("vecdot", (TALL, TALL[::-1].copy()), {}),
    ("cross", (TALL, TALL[::-1].copy()), {}), ("diagonal", (WIDE,), {"offset": 1}),
    ("matrix_exp", (SQUARE,), {}), ("matrix_exp", (SQUARE[0] / 9,), {}),
    ("matrix_exp", (np.zeros((2, 3, 3)),), {}), ("inv_ex", (SQUARE,), {}),
    ("tensorsolve", (SQUARE[0].reshape(2, 2, 4), SQUARE[1, :2, :2].copy()), {}),
    ("tensorsolve", (SQUARE[0].reshape(4, 2, 2), VECTOR), {"dims": (1,)}),
    ("tensorinv", (SQUARE[0].reshape(2, 2, 4),), {"ind": 2}),
    ("householder_product", (TALL, VECTOR[:3].copy()), {}),
    ("householder_product", (SQUARE, SQUARE[:, 0, :2].copy()), {}),
    ("cholesky_ex", (POSITIVE,), {}), ("cholesky_ex", (POSITIVE,), {"upper": True}),
]  # fmt: skip


def _made(args: Any, make: Any) -> list[Any]:
    return [_made(a, make) if isinstance(a, list) else make(a) if isinstance(a, np.ndarray) else a
            for a in args]  # fmt: skip


def _flat(values: Any, kind: type) -> list[Any]:
    if isinstance(values, kind):
        return [values]
    return [v for one in values if isinstance(one, tuple | list | kind) for v in _flat(one, kind)]


@sampled(
    "name, args, named", CALLS, keep=2, wide=12,
    ids=[f"{n}-{i}" for i, (n, _, _) in enumerate(CALLS)],
)  # fmt: skip
def test_a_function_agrees_with_torch(
    name: str, args: tuple[Any, ...], named: dict[str, Any]
) -> None:
    mine = _made(args, lambda a: tensor(a, True))
    theirs = _made(args, lambda a: torch.from_numpy(a.copy()).requires_grad_())
    y = getattr(linalg, name)(*mine, **named)
    z = getattr(torch.linalg, name)(*theirs, **named)
    kind = type(mine[0] if not isinstance(mine[0], list) else mine[0][0])
    found, wanted = _flat(y, kind), _flat(z, torch.Tensor)
    if name == "lstsq":
        found, wanted = found[:1], wanted[:1]
    total: Any = None
    other: Any = None
    for a, b in zip(found, wanted, strict=True):
        assert tuple(a.shape) == tuple(b.shape)
        np.testing.assert_allclose(a.detach()._array(), b.detach().numpy(), rtol=1e-9, atol=1e-9)
        if b.requires_grad:
            s = a.sin().sum()
            total = s if total is None else total + s
            t = b.sin().sum()
            other = t if other is None else other + t
    if total is None:
        return
    total.backward()
    other.backward()
    for a, b in zip(_flat(mine, kind), _flat(theirs, torch.Tensor), strict=True):
        np.testing.assert_allclose(a.grad._array(), b.grad.numpy(), rtol=1e-7, atol=1e-7)


def test_decompositions_make_the_matrix_again() -> None:
    for x in (TALL, WIDE, SQUARE):
        u, s, vh = linalg.svd(tensor(x), full_matrices=False)
        np.testing.assert_allclose((u * s.unsqueeze(-2) @ vh)._array(), x, atol=1e-12)
        q, r = linalg.qr(tensor(x))
        np.testing.assert_allclose((q @ r)._array(), x, atol=1e-12)
        assert linalg.svd(tensor(x)).U.shape[-1] == x.shape[-2]
    values, vectors = linalg.eigh(tensor(POSITIVE))
    made = vectors * values.unsqueeze(-2) @ vectors.transpose(-2, -1)
    np.testing.assert_allclose(made._array(), POSITIVE, atol=1e-10)


def test_symmetric_factors_are_lapacks_and_solve() -> None:
    x = SQUARE + np.swapaxes(SQUARE, -2, -1)
    x[0, :2, :2] = [[0, 1], [1, 0]]  # a block of two
    right = RNG.standard_normal((2, 4, 3))
    made: Any = linalg.ldl_factor(tensor(x))
    wanted = torch.linalg.ldl_factor(torch.from_numpy(x))
    for a, b in zip(made, wanted, strict=True):
        np.testing.assert_allclose(a._array(), b.numpy(), rtol=1e-12, atol=1e-12)
    found: Any = x @ linalg.ldl_solve(made.LD, made.pivots, tensor(right))._array()
    np.testing.assert_allclose(found, right)
    info = linalg.ldl_factor_ex(tensor(np.zeros((2, 2)))).info
    assert info.item() == torch.linalg.ldl_factor_ex(torch.zeros(2, 2)).info.item()


def test_what_is_refused_is_refused_in_words() -> None:
    for call, words in (
        (lambda: linalg.eig(tensor(SQUARE)), "no complex tensors"),
        (lambda: linalg.matrix_norm(tensor(TALL), 3), "Order 3 not supported"),
        (lambda: linalg.inv(tensor(TALL)), "batches of square matrices"),
        (lambda: linalg.solve(tensor(np.zeros((2, 2))), tensor(np.ones(2))), "singular"),
        (lambda: linalg.norm(tensor(WIDE), 2), "must be 1D or 2D"),
        (lambda: linalg.qr(tensor(TALL), "full"), "unrecognized mode"),
    ):
        with pytest.raises(RuntimeError, match=words):
            call()


@pytest.mark.wide
@sampled("left", [True, False], keep=1)
@sampled("adjoint", [True, False], keep=1)
def test_l_and_u_solve_as_torchs(left: bool, adjoint: bool) -> None:
    right = RNG.standard_normal((2, 4, 3))
    ours = linalg.lu_factor(tensor(SQUARE))
    theirs = torch.linalg.lu_factor(torch.tensor(SQUARE))
    assert ours.pivots.tolist() == theirs.pivots.tolist()
    b = right if left else np.ascontiguousarray(np.swapaxes(right, -2, -1))
    mine = tensor(b, requires_grad=True)
    found = linalg.lu_solve(ours.LU, ours.pivots, mine, left=left, adjoint=adjoint)
    yours = torch.tensor(b, requires_grad=True)
    wanted = torch.linalg.lu_solve(*theirs, yours, left=left, adjoint=adjoint)
    np.testing.assert_allclose(found.detach().numpy(), wanted.detach().numpy(), 1e-9)
    (found**2).sum().backward()
    (wanted**2).sum().backward()
    np.testing.assert_allclose(mine.grad.numpy(), yours.grad.numpy(), 1e-9)


@pytest.mark.wide
def test_l_and_u_of_tall_matrices_are_torchs() -> None:
    for part, wanted in zip(
        linalg.lu(tensor(TALL)), torch.linalg.lu(torch.tensor(TALL)), strict=True
    ):
        np.testing.assert_allclose(part.numpy(), wanted.numpy(), 1e-9, 1e-12)


def test_what_fails_is_told() -> None:
    lost = np.array([np.eye(3), np.diag([1.0, -1.0, 2.0]), np.diag([2.0, 3.0, 0.0])])
    found, wanted = linalg.cholesky_ex(tensor(lost)), torch.linalg.cholesky_ex(torch.tensor(lost))
    assert found.info.tolist() == wanted.info.tolist() == [0, 2, 3]
    assert found.L[0].tolist() == wanted.L[0].tolist()
    assert found.L[1:].isnan().all()
    found, wanted = linalg.inv_ex(tensor(lost)), torch.linalg.inv_ex(torch.tensor(lost))
    assert found.info.tolist() == wanted.info.tolist() == [0, 0, 3]
    assert found.inverse[:2].tolist() == wanted.inverse[:2].tolist()
    for call in (linalg.cholesky_ex, linalg.inv_ex, linalg.lu_factor_ex):
        with pytest.raises(RuntimeError):
            call(tensor(lost), check_errors=True)
    assert linalg.lu_factor_ex(tensor(lost)).info.tolist() == [0, 0, 3]
    found = library.lu(tensor(lost), get_infos=True)
    wanted = torch.linalg.lu_factor_ex(torch.tensor(lost))
    for part, theirs in zip(found, wanted, strict=True):
        assert part.tolist() == theirs.tolist()
    assert repr(tensor(lost).lu()) == repr(tuple(found[:2]))


@pytest.mark.wide
def test_few_singular_values_are_found_by_torchs_numbers_of_chance() -> None:
    found: list[list[Any]] = []
    for u in (library, torch):
        u.manual_seed(3)
        tall = u.tensor(np.random.default_rng(1).standard_normal((7, 4)))
        parts = [*u.svd_lowrank(tall, 3), *u.svd_lowrank(tall.mT, 2), *u.pca_lowrank(tall)]
        found.append([np.array(p.tolist()) for p in (*parts, u.rand(2))])
        with pytest.raises(ValueError, match="must be non-negative integer and not greater than"):
            u.pca_lowrank(tall, 9)
    for mine, real in zip(*found, strict=True):
        np.testing.assert_allclose(np.abs(mine), np.abs(real), atol=1e-6)


@pytest.mark.parametrize(
    ("x", "order", "named"),
    [
        (TALL, "nuc", {}), (TALL, "nuc", {"dim": (1, 0), "keepdim": True}),
        (WIDE, "nuc", {"dim": (0, 2)}), (WIDE, "fro", {}), (WIDE, "fro", {"dim": [1, 2]}),
        (TALL, "fro", {"dim": 0}), (WIDE, "nuc", {}), (WIDE, "fro", {"dim": (0, 1, 2)}),
        (VECTOR, "nuc", {}), (TALL, "other", {}),
    ],
)  # fmt: skip
def test_norms_that_words_name_are_pytorchs(x: Any, order: str, named: dict[str, Any]) -> None:
    found: list[Any] = []
    for lib in (library, torch):
        t = lib.tensor(x, requires_grad=True)
        try:
            made = lib.norm(t, order, **named)
        except RuntimeError as error:
            found.append(str(error))
            continue
        made.sum().backward()
        found.append((made.detach().numpy(), t.grad.numpy(), t.norm(order, **named).tolist()))
    mine, theirs = found
    if isinstance(theirs, str):
        assert mine == theirs
        return
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)
