"""Random shapes of rows along any dimensions, of norms, losses and products that share a factor."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from suite_parts import products, rows
from suite_parts.workload import Input, Workload, definition, floats, named, size


def _shape(rng: random.Random, rank: int, most: int = 1 << 22) -> tuple[int, ...]:
    return tuple(size(rng, 2, round(most ** (1 / rank))) for _ in range(rank))


def _softmax(rng: random.Random) -> Workload:
    """Return a softmax, or its logarithm, along the first or a middle dimension."""
    letters, dim = rng.choice((("cp", 0), ("ncp", 1), ("cnp", 0), ("nchw", 1)))
    shape = _shape(rng, len(letters))
    at, rest = ",".join(letters), ",".join(x for x in letters if x != "c")
    is_log = rng.random() < 0.3
    last = f"X({at}) - M({rest}) - log(S({rest}))" if is_log else f"E({at}) / S({rest})"
    text = definition(
        "softmax",
        f"float({at.upper()}) X",
        f"M({rest}) max=! X({at})\n  E({at}) = exp(X({at}) - M({rest}))\n"
        f"  S({rest}) +=! E({at})\n  Y({at}) = {last}",
        "Y",
    )
    name = named("log softmax" if is_log else "softmax", letters, shape)
    return Workload(
        name,
        "axes",
        text,
        floats(shape),
        lambda t, x: t.log_softmax(x, dim) if is_log else t.softmax(x, dim),
    )


def norm(rng: random.Random) -> Workload:
    """Return a norm of groups, of a batch, or by the root of the mean of squares."""
    kind = rng.choice(("group", "batch", "rms", "instance"))
    if kind == "rms":
        shape = size(rng, 1, 4096), size(rng, 2, 4096)
        return Workload(
            named("rmsnorm", shape),
            "norms",
            rows.RMSNORM,
            floats(shape, shape[1:]),
            lambda t, x, g: t.nn.functional.rms_norm(x, shape[1:], g, 1e-5),
        )
    n, c, p = size(rng, 2, 64), size(rng, 2, 64), size(rng, 4, 4096)
    if kind == "batch":
        return Workload(
            named("batchnorm", (n, c, p)),
            "norms",
            rows.BATCHNORM,
            floats((n, c, p), (c,), (c,)),
            lambda t, x, g, h: t.nn.functional.batch_norm(x, None, None, g, h, True),
        )
    groups, c = (c, 1) if kind == "instance" else (size(rng, 1, 16), size(rng, 1, 16))
    return Workload(
        named("groupnorm", (n, groups, c, p)),
        "norms",
        rows.GROUPNORM,
        floats((n, groups, c, p), (groups, c), (groups, c)),
        rows.group_norm,
    )


_FOLDS: dict[str, tuple[str, Callable[[Any, Any, Any], Any]]] = {
    "sum": ("O({o}) +=! X({i})", lambda t, x, dims: x.sum(dims)),
    "squares": ("O({o}) +=! X({i}) * X({i})", lambda t, x, dims: (x * x).sum(dims)),
    "max": ("O({o}) max=! X({i})", lambda t, x, dims: x.amax(dims)),
    "min": ("O({o}) min=! X({i})", lambda t, x, dims: x.amin(dims)),
    "norm": (
        "S({o}) +=! X({i}) * X({i})\n  O({o}) = sqrt(S({o}))",
        lambda t, x, dims: t.linalg.vector_norm(x, 2, dims),
    ),
    "logsumexp": (
        "M({o}) max=! X({i})\n  S({o}) +=! exp(X({i}) - M({o}))\n  O({o}) = M({o}) + log(S({o}))",
        lambda t, x, dims: t.logsumexp(x, dims),
    ),
}


def _fold(rng: random.Random) -> Workload:
    """Return a reduction of any dimensions of three or four."""
    letters = "abcd"[: rng.randint(3, 4)]
    folded = sorted(rng.sample(range(len(letters)), rng.randint(1, len(letters) - 1)))
    left = ",".join(x for i, x in enumerate(letters) if i not in folded)
    shape, kind = _shape(rng, len(letters)), rng.choice(list(_FOLDS))
    text, peer = _FOLDS[kind]
    name = named(kind, f"{letters}->{left.replace(',', '')}", shape)
    body = text.format(o=left, i=",".join(letters))
    wanted = tuple(folded)
    return Workload(
        name,
        "folds",
        definition("fold", f"float({','.join(letters.upper())}) X", body),
        floats(shape),
        lambda t, x: peer(t, x, wanted),
    )


_STEPS: dict[str, tuple[str, Callable[[Any, int], Any]]] = {
    "cumsum": ("{b} + {x}", lambda x, d: x.cumsum(d)),
    "cumprod": ("{b} * {x}", lambda x, d: x.cumprod(d)),
    "cummax": ("max({b}, {x})", lambda x, d: x.cummax(d)[0]),
    "logcumsumexp": ("logaddexp({b}, {x})", lambda x, d: x.logcumsumexp(d)),
}


def _scan(rng: random.Random) -> Workload:
    """Return a scan along any dimension of three."""
    kind, dim = rng.choice(list(_STEPS)), rng.choice((0, 1, 1, 2))
    shape, (step, peer) = _shape(rng, 3, 1 << 21), _STEPS[kind]
    others = iter("ab")
    letters = ["t" if d == dim else next(others) for d in range(3)]

    def at(place: str) -> str:
        return ", ".join(place if x == "t" else x for x in letters)

    names = ",".join("N" if x == "t" else x.upper() for x in letters)
    value = step.format(b=f"O({at('t - 1')})", x=f"X({at('t')})")
    body = f"O({at('0')}) = X({at('0')})\n  for t in 1:N {{ O({at('t')}) = {value} }}"
    text = definition("scan", f"float({names}) X", body, f"float({names}) O")
    name = named(kind, "along", dim, "of", shape)
    return Workload(name, "scans", text, floats(shape), lambda t, x: peer(x, dim))


def _broadcast_product(rng: random.Random) -> Workload:
    """Return a product of matrices one of which is shared, wholly or by some of the batch."""
    spec = rng.choice(
        ("bmk,kn->bmn", "mk,bkn->bmn", "bmk,nk->bmn", "abmk,bkn->abmn", "amk,abkn->abmn",
         "abmk,abnk->abmn", "bmk,bk->bm", "bk,bkn->bn", "bmk,k->bm")
    )  # fmt: skip
    of = {x: size(rng, 2, 24 if x in "ab" else 256) for x in sorted({*spec} - {*",->"})}
    sizes = " ".join(f"{x}={s}" for x, s in of.items())
    return products.einsum(f"{spec} {sizes}", "batched products", spec, sizes)


# ---- losses


def _loss(rng: random.Random) -> Workload:
    kind = rng.choice(("cross entropy", "squared", "smooth", "binary", "divergence", "cosine"))
    b, n = shape = size(rng, 2, 2048), size(rng, 2, 2048)
    if kind == "cross entropy":
        inputs = Input(shape), Input((b,), "int64", 0, n)
        return Workload(
            named(kind, shape), "losses", rows.CROSS_ENTROPY, inputs,
            lambda t, x, y: t.nn.functional.cross_entropy(x, y, reduction="none"),
        )  # fmt: skip
    peers: dict[str, tuple[str, Callable[[Any, Any, Any], Any]]] = {
        "squared": ("d * d", lambda f, x, y: f.mse_loss(x, y)),
        "smooth": (
            "abs(d) < 1 ? 0.5 * d * d : abs(d) - 0.5",
            lambda f, x, y: f.smooth_l1_loss(x, y),
        ),
        "binary": (
            "softplus(x) - x * Y(i,j)",
            lambda f, x, y: f.binary_cross_entropy_with_logits(x, y),
        ),
        "divergence": (
            "exp(Y(i,j)) * (Y(i,j) - x)",
            lambda f, x, y: f.kl_div(x, y, reduction="mean", log_target=True),
        ),
    }
    if kind not in peers:
        text = (
            "P(i) +=! X(i,j) * Y(i,j)\n  A(i) +=! X(i,j) * X(i,j)\n  B(i) +=! Y(i,j) * Y(i,j)\n"
            "  O(i) = P(i) * rsqrt(A(i) * B(i))"
        )
        return Workload(
            named(kind, shape), "losses", definition("loss", "float(N,M) X, float(N,M) Y", text),
            floats(shape, shape), lambda t, x, y: t.cosine_similarity(x, y, 1),
        )  # fmt: skip
    value, peer = peers[kind]
    body = f"S +=! {value} where d = X(i,j) - Y(i,j), x = X(i,j)\n  O = S / {b * n}"
    text = definition("loss", "float(N,M) X, float(N,M) Y", body)
    return Workload(
        named(kind, shape),
        "losses",
        text,
        floats(shape, shape),
        lambda t, x, y: peer(t.nn.functional, x, y),
    )


FORMS: dict[str, Callable[[random.Random], Workload]] = {
    "axis-softmax": _softmax,
    "norm": norm,
    "fold": _fold,
    "axis-scan": _scan,
    "shared-product": _broadcast_product,
    "loss": _loss,
}
