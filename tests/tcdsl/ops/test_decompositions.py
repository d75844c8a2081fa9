"""Decompositions, inverses, determinants and systems agree with PyTorch, gradients too."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tcdsl.ops import families  # noqa: F401  (it makes names public)
from tcdsl.ops.table import PUBLIC
from tests.tcdsl.ops.calls import leaves, tensor
from tests.tcdsl.ops.test_samples import compare, gradients
from tests.tiers import sampled

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.cc, pytest.mark.filterwarnings("ignore")]

Array = np.ndarray[Any, Any]
OURS = SimpleNamespace(**PUBLIC)


def normal(*shape: int, seed: int = 0) -> Array:
    rng = np.random.default_rng([seed, *shape])
    return np.asarray(rng.standard_normal(shape))


def definite(*shape: int) -> Array:
    half = normal(*shape, shape[-1])
    return half @ np.swapaxes(half, -2, -1) + np.eye(shape[-1])


def of_rank(rank: int, m: int, n: int) -> Array:
    return normal(m, rank, seed=1) @ normal(rank, n, seed=2)


def without_signs(u: Any, s: Any, v: Any) -> tuple[Any, ...]:
    """Return what does not depend on the signs of columns."""
    k = s.shape[-1]
    u, v = u.narrow(-1, 0, k), v.narrow(-1, 0, k)
    return s, u * u, v * v, (u * s.unsqueeze(-2) * s.unsqueeze(-2)) @ v.transpose(-2, -1)


def vectors(values: Any, v: Any) -> tuple[Any, ...]:
    return values, v * v, (v * values.unsqueeze(-2) * values.unsqueeze(-2)) @ v.transpose(-2, -1)


def symmetric(a: Any) -> Any:
    return a + a.transpose(-2, -1)


Call = Callable[..., Any]
SQUARE, BATCH = normal(4, 4), normal(2, 3, 3)
STRIDED = np.ascontiguousarray(normal(3, 3, seed=3).T).T
COLUMNS = normal(4, 2, seed=4)


def same(name: str, *more: Any, **named: Any) -> tuple[Call, Call]:
    """Return calls of one name in both libraries."""
    return tuple(  # type: ignore[return-value]
        lambda *x, library=library: getattr(library, name)(*x, *more, **named)
        for library in (OURS, torch)
    )


def both(call: Call) -> tuple[Call, Call]:
    """Return one function over both libraries."""
    return (lambda *x: call(OURS, *x)), (lambda *x: call(torch, *x))


def of_svd(some: bool = True) -> tuple[Call, Call]:
    return both(lambda t, a: without_signs(*t.svd(a, some)))


def triangle_solved(upper: bool, transpose: bool, unit: bool) -> tuple[Call, Call]:
    def theirs(b: Any, a: Any) -> Any:
        a = a.mT if transpose else a
        return torch.linalg.solve_triangular(a, b, upper=upper != transpose, unitriangular=unit)

    return (lambda b, a: OURS.trtrs(b, a, upper, transpose, unit)[0]), theirs


SOLVED = (lambda b, a: OURS.gesv(b, a)[0]), (lambda b, a: torch.linalg.solve(a, b))
CASES: dict[str, tuple[tuple[Call, Call], tuple[Array, ...]]] = {
    "inverse": (same("inverse"), (SQUARE,)),
    "inverse-batch": (same("inverse"), (BATCH,)),
    "inverse-strided": (same("inverse"), (STRIDED,)),
    "inverse-empty": (same("inverse"), (np.zeros((0, 3, 3)),)),
    "pinverse-tall": (same("pinverse"), (normal(5, 3),)),
    "pinverse-wide": (same("pinverse"), (normal(2, 3, 5),)),
    "det": (same("det"), (SQUARE,)),
    "det-batch": (same("det"), (BATCH,)),
    "det-1": (same("det"), (normal(1, 1),)),
    "det-0": (same("det"), (np.zeros((0, 0)),)),
    "slogdet": (same("slogdet"), (BATCH,)),
    "logdet": (same("logdet"), (definite(2, 3),)),
    "logdet-below-0": (same("logdet"), (np.array([[0.0, 1.0], [1.0, 0.0]]),)),
    "matrix_power-3": (same("matrix_power", 3), (BATCH,)),
    "matrix_power-0": (same("matrix_power", 0), (BATCH,)),
    "matrix_power--2": (same("matrix_power", -2), (SQUARE,)),
    "qr-tall": (same("qr"), (normal(5, 3),)),
    "qr-square": (same("qr"), (BATCH,)),
    "qr-wide": (same("qr"), (normal(2, 3, 5),)),
    "qr-strided": (same("qr"), (STRIDED,)),
    "svd-tall": (of_svd(), (normal(5, 3),)),
    "svd-wide": (of_svd(), (normal(2, 3, 5),)),
    "svd-all": (of_svd(False), (normal(5, 3),)),
    "svd-values": (both(lambda t, a: t.svd(a)[1]), (normal(4, 3),)),
    "svd-values-of-one": (both(lambda t, a: t.svd(a)[1]), (np.eye(3),)),
    "svd-u": (both(lambda t, a: t.svd(a)[0] ** 2), (normal(4, 3),)),
    "svd-v": (both(lambda t, a: t.svd(a)[2] ** 2), (normal(3, 4),)),
    "symeig": (
        (
            lambda a: vectors(*OURS.symeig(symmetric(a), True)),
            lambda a: vectors(*torch.linalg.eigh(symmetric(a), "U")),
        ),
        (BATCH,),
    ),
    "symeig-values": (
        (lambda a: OURS.symeig(a, upper=False)[0], lambda a: torch.linalg.eigh(a, "L")[0]),
        (definite(4),),
    ),
    "eig": (
        (
            lambda a: (OURS.eig(a, True)[0].select(1, 0), OURS.eig(a, True)[1] ** 2),
            lambda a: (torch.linalg.eig(a)[0].real, torch.linalg.eig(a)[1].real ** 2),
        ),
        (np.triu(normal(4, 4)) + np.diag([1.0, 2, 4, 8]),),
    ),
    "cholesky": (same("cholesky"), (definite(2, 3),)),
    "cholesky-upper": (same("cholesky", upper=True), (definite(4),)),
    "potrf": ((lambda a: OURS.potrf(a), lambda a: torch.cholesky(a, upper=True)), (definite(3),)),
    "potri": (  # PyTorch's gradients are not 0 for the triangle that is not read
        (lambda a: OURS.potri(a), lambda a: torch.cholesky_inverse(a.triu(), upper=True)),
        (definite(3),),
    ),
    "potrs": (
        (lambda b, a: OURS.potrs(b, a), lambda b, a: torch.cholesky_solve(b, a.triu(), upper=True)),
        (COLUMNS, definite(4)),
    ),
    "potrs-lower": (
        (lambda b, a: OURS.potrs(b, a, False), lambda b, a: torch.cholesky_solve(b, a.tril())),
        (COLUMNS, definite(4)),
    ),
    "gesv": (
        (lambda b, a: OURS.gesv(b, a)[0], lambda b, a: torch.linalg.solve(a, b)),
        (COLUMNS, SQUARE),
    ),
    "gesv-batch": (
        (lambda b, a: OURS.gesv(b, a)[0], lambda b, a: torch.linalg.solve(a, b)),
        (normal(2, 3, 2), BATCH[1]),
    ),
    "trtrs": (triangle_solved(True, False, False), (COLUMNS, definite(4))),
    "trtrs-transposed": (triangle_solved(True, True, True), (COLUMNS, definite(4))),
    "trtrs-lower": (triangle_solved(False, True, False), (normal(2, 4, 2), definite(4))),
    "trtrs-unit": (triangle_solved(False, False, True), (COLUMNS, definite(4))),
    "renorm": (same("renorm", 2, 0, 1.5), (normal(4, 3),)),
    "renorm-1": (same("renorm", 1, 1, 2.0), (normal(2, 3, 4),)),
}


def agree(calls: tuple[Call, Call], arrays: tuple[Array, ...]) -> None:
    """Compare values, gradients and second gradients of float64."""
    x = [tensor(a, True) for a in arrays]
    w = [torch.from_numpy(a.copy(order="K")).requires_grad_() for a in arrays]
    y, z = list(leaves(calls[0](*x))), list(leaves(calls[1](*w), (torch.Tensor,)))
    assert len(y) == len(z)
    for a, b in zip(y, z, strict=True):
        compare("value", a, b, b, 1e-9)
    kept = [i for i, a in enumerate(y) if a.requires_grad]
    if not kept:
        return
    seeds = [normal(*z[i].shape, seed=7 + i) for i in kept]
    d_y = [tensor(s, True) for s in seeds]
    d_z = [torch.from_numpy(s).requires_grad_() for s in seeds]
    g = gradients([y[i] for i in kept], x, d_y, again=True)
    h = torch.autograd.grad([z[i] for i in kept], w, d_z, create_graph=True)
    for a, b in zip(g, h, strict=True):
        compare("gradient", a, b, b, 1e-8)
    if not all(b.requires_grad for b in h):
        return
    seeds = [normal(*b.shape, seed=9) for b in h]
    second = torch.autograd.grad(
        h, w + d_z, [torch.from_numpy(s) for s in seeds], allow_unused=True
    )
    found = gradients(list(g), x + d_y, [tensor(s) for s in seeds], again=False)
    for a, b, like in zip(found, second, w + d_z, strict=True):
        compare("second gradient", a, b, like, 1e-7)


@sampled("name", CASES, keep=0, wide=8)
def test_it_agrees_with_torch(name: str) -> None:
    agree(*CASES[name])


def equal(mine: Any, theirs: Any, rtol: float = 1e-10) -> None:
    a, b = mine.detach()._array(), theirs.detach().numpy()
    assert a.dtype == b.dtype
    np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)


def test_values_are_those_of_torch() -> None:
    for a in (SQUARE, BATCH, STRIDED, SQUARE.astype(np.float32)):
        rtol = 1e-10 if a.dtype == np.float64 else 1e-4
        x, w = tensor(a), torch.from_numpy(a.copy())
        equal(OURS.inverse(x), torch.inverse(w), rtol)
        equal(OURS.det(x), torch.det(w), rtol)
        for mine, theirs in zip(OURS.qr(x), torch.linalg.qr(w), strict=True):
            equal(mine, theirs, rtol)


SINGULAR, BATCH_OF_ONE = np.ones((2, 2)), np.stack([np.eye(2), np.ones((2, 2))])
ONE = np.eye(2)
REFUSED: list[tuple[str, tuple[Array, ...], Call]] = [
    ("inverse", (SINGULAR,), torch.inverse),
    ("inverse", (BATCH_OF_ONE,), torch.inverse),
    ("inverse", (np.ones((2, 3)),), torch.inverse),
    ("inverse", (np.ones(3),), torch.inverse),
    ("inverse", (np.ones((2, 2), np.int64),), torch.inverse),
    ("inverse", (np.ones((2, 2), np.float16),), torch.inverse),
    ("det", (np.ones((2, 3)),), torch.det),
    ("logdet", (np.ones((2, 3)),), torch.logdet),
    ("matrix_power", (np.ones((2, 3)),), lambda a: torch.matrix_power(a, 2)),
    ("qr", (np.ones(3),), torch.linalg.qr),
    ("svd", (np.full((2, 2), np.nan),), torch.svd),
    ("eig", (np.full((2, 2), np.inf),), torch.linalg.eig),
    ("cholesky", (SINGULAR,), torch.cholesky),
    ("cholesky", (np.stack([np.eye(2), -np.eye(2)]),), torch.cholesky),
    ("cholesky", (np.full((2, 2), np.nan),), torch.cholesky),
    ("potri", (np.diag([1.0, 0.0]),), lambda a: torch.cholesky_inverse(a, upper=True)),
    ("gesv", (ONE, SINGULAR), lambda b, a: torch.linalg.solve(a, b)),
    ("gesv", (BATCH_OF_ONE, BATCH_OF_ONE), lambda b, a: torch.linalg.solve(a, b)),
    ("gesv", (ONE, ONE.astype(np.float32)), lambda b, a: torch.linalg.solve(a, b)),
]


def test_refusals_are_in_the_words_of_torch() -> None:
    for name, arrays, theirs in REFUSED:
        with pytest.raises(RuntimeError) as wanted:
            theirs(*map(torch.from_numpy, arrays))
        more = (2,) if name == "matrix_power" else ()
        with pytest.raises(RuntimeError) as found:
            getattr(OURS, name)(*map(tensor, arrays), *more)
        assert str(found.value) == str(wanted.value), name


def test_results_go_into_tensors_that_are_given() -> None:
    x, made = tensor(SQUARE), (tensor(np.zeros((4, 4))), tensor(np.zeros((4, 4))))
    assert all(a is b for a, b in zip(OURS.qr(x, out=made), made, strict=True))
    equal(made[0], torch.linalg.qr(torch.from_numpy(SQUARE))[0])
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        OURS.inverse(tensor(SQUARE, True), out=made[0])


def explicit_det(a: Any) -> Any:
    r, s, t = a.select(0, 0), a.select(0, 1), a.select(0, 2)
    return torch.dot(r, torch.linalg.cross(s, t))


@pytest.mark.wide
@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_determinants_of_singular_matrices_have_gradients(rank: int) -> None:
    agree((OURS.det, explicit_det), (of_rank(rank, 3, 3),))


@pytest.mark.wide
def test_complex_eigenvalues_come_as_pairs() -> None:
    a = np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 2]])
    values, vectors = (t._array() for t in OURS.eig(tensor(a), True))
    for k in range(3):
        first = k - (values[k, 1] < 0)
        pair = values[first, 1] != 0
        sign = -1 if first != k else 1
        vector = vectors[:, first] + (1j * sign * vectors[:, first + 1] if pair else 0)
        np.testing.assert_allclose(a @ vector, complex(*values[k]) * vector, atol=1e-12)
    assert OURS.eig(tensor(a))[1].numel() == 0


@pytest.mark.wide
@pytest.mark.parametrize("shape", [(4, 4), (2, 5, 3), (2, 3, 5)])
def test_factors_are_those_of_lapack(shape: tuple[int, ...]) -> None:
    a = normal(*shape)
    x, w = tensor(a), torch.from_numpy(a)
    for mine, theirs in zip(OURS.geqrf(x), torch.geqrf(w), strict=True):
        equal(mine, theirs)
    if shape[-2] >= shape[-1]:
        equal(OURS.orgqr(*OURS.geqrf(x)), torch.linalg.qr(w)[0])
    found = OURS.btrifact_with_info(x)
    for mine, theirs in zip(found, torch.linalg.lu_factor_ex(w), strict=True):
        equal(mine, theirs)
    for mine, theirs in zip(OURS.btriunpack(*found[:2]), torch.linalg.lu(w), strict=True):
        equal(mine, theirs)
    p, low, high = (t._array() for t in OURS.btriunpack(*OURS.btrifact(x, pivot=False)))
    np.testing.assert_allclose(p @ low @ high, a, atol=1e-10)
    if len(shape) == 2:
        b = normal(4, 3)
        equal(
            OURS.btrisolve(tensor(b), *OURS.btrifact(x)), torch.linalg.solve(w, torch.from_numpy(b))
        )


@pytest.mark.wide
def test_least_squares_are_those_of_torch() -> None:
    for m, n in ((5, 3), (3, 5), (4, 4)):
        a, b = normal(m, n), normal(m, 2)
        x = OURS.gels(tensor(b), tensor(a))[0]
        wanted = torch.linalg.lstsq(torch.from_numpy(a), torch.from_numpy(b), driver="gels")[0]
        equal(x.narrow(0, 0, n), wanted, 1e-9)
        if m > n:
            rest = (x._array()[n:] ** 2).sum(0)
            np.testing.assert_allclose(rest, ((a @ wanted.numpy() - b) ** 2).sum(0))


@pytest.mark.wide
@pytest.mark.parametrize(
    "name", ["hann_window", "hamming_window", "blackman_window", "bartlett_window"]
)
def test_windows_are_those_of_torch(name: str) -> None:
    for length in (0, 1, 2, 7, 8):
        for periodic in (True, False):
            equal(
                OURS.__dict__[name](length, periodic), getattr(torch, name)(length, periodic), 1e-6
            )


@pytest.mark.wide
def test_what_has_no_derivative_says_so() -> None:
    x = tensor(normal(4, 2), True)
    for made in (OURS.geqrf(x)[0], OURS.gels(tensor(COLUMNS), x)[0], OURS.qr(x, False)[0]):
        with pytest.raises(RuntimeError, match=r"not (implemented|differentiable)"):
            gradients([made], [x], [tensor(np.ones(tuple(made.shape)))], again=False)


@pytest.mark.wide
def test_histograms_are_those_of_torch() -> None:
    for a in (normal(50, 3), np.array([1.0, 1.0]), np.array([0.0, np.nan, 3.0, -9.0, 2.0])):
        low, high = (0, 0) if np.isfinite(a).all() else (0, 3)
        x, w = tensor(a), torch.from_numpy(a)
        equal(OURS.histc(x, 7, low, high), torch.histc(w, 7, low, high))
    with pytest.raises(RuntimeError, match="bins must be > 0"):
        OURS.histc(x, 0)
    with pytest.raises(RuntimeError, match="is not finite"):
        OURS.histc(x, 3)


@pytest.mark.wide
def test_draws_are_by_weights() -> None:
    weights = np.array([[0.0, 1.0, 3.0, 0.0], [5.0, 0.0, 0.0, 5.0]])
    x = tensor(weights)
    drawn = OURS.multinomial(x, 4000, True)._array()
    assert drawn.dtype == np.int64
    for row, wanted in zip(drawn, weights, strict=True):
        share = np.bincount(row, minlength=4) / 4000
        np.testing.assert_allclose(share, wanted / wanted.sum(), atol=0.05)  # 6 deviations
        assert not share[wanted == 0].any()
    for _ in range(5):
        drawn = np.sort(OURS.multinomial(x, 2)._array(), axis=1)
        np.testing.assert_array_equal(drawn, [[1, 2], [0, 3]])
    firsts = [
        int(OURS.multinomial(tensor(np.array([1.0, 3.0])), 1)._array()[0]) for _ in range(400)
    ]
    assert 0.6 < np.mean(firsts) < 0.9  # 0.75, 7 deviations
    assert sorted(OURS.multinomial(tensor(np.ones(9, np.float32)), 9)._array()) == [*range(9)]


@pytest.mark.wide
@pytest.mark.parametrize(
    ("weights", "count"),
    [
        (np.zeros(2), 1),
        (np.array([1.0, -1.0]), 1),
        (np.array([1.0, np.nan]), 1),
        (np.array([1.0, np.inf]), 1),
        (np.ones(2, np.int64), 1),
        (np.ones(2), 3),
        (np.ones(2), 0),
        (np.ones((2, 2, 2)), 1),
    ],
)
def test_draws_that_cannot_be_are_refused_as_torch_does(weights: Array, count: int) -> None:
    with pytest.raises(RuntimeError) as wanted:
        torch.multinomial(torch.from_numpy(weights), count)
    with pytest.raises(RuntimeError) as found:
        OURS.multinomial(tensor(weights), count)
    assert str(found.value) == str(wanted.value)


@pytest.mark.wide
def test_products_of_reflectors_agree() -> None:
    a, b = normal(5, 3), normal(5, 2)
    found = OURS.geqrf(tensor(a))
    theirs = torch.geqrf(torch.from_numpy(a))
    for transpose in (False, True):
        wanted = torch.ormqr(*theirs, torch.from_numpy(b), transpose=transpose)
        made = OURS.ormqr(*found, tensor(b), transpose=transpose)
        np.testing.assert_allclose(made.numpy(), wanted.numpy(), atol=1e-12)
        wanted = torch.ormqr(*theirs, torch.from_numpy(b.T.copy()), False, transpose)
        made = OURS.ormqr(*found, tensor(b.T.copy()), False, transpose)
        np.testing.assert_allclose(made.numpy(), wanted.numpy(), atol=1e-12)


@pytest.mark.wide
def test_a_pivoted_triangle_gives_its_matrix_back() -> None:
    root = normal(4, 4)
    a = root @ root.T
    for upper in (True, False):
        u, piv = (x.numpy() for x in OURS.pstrf(tensor(a), upper))
        assert piv.dtype == np.int32
        assert sorted(piv) == [0, 1, 2, 3]
        square = u.T @ u if upper else u @ u.T
        np.testing.assert_allclose(square, a[piv][:, piv], atol=1e-12)
        assert (np.diff(np.diag(u)) <= 1e-12).all()
