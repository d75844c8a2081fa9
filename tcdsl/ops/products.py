"""Products of matrices, vectors and batches of them, and sums of products by their letters."""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from functools import cache, partial
from typing import Any

from tcdsl.core import Op, Tensor, is_casting, made_by, operator
from tcdsl.core.dtypes import DType
from tcdsl.grammar.text.errors import ShapeError
from tcdsl.ops.casting import lower, lowered
from tcdsl.ops.rules import NAMES, Operands, broadcast_shape, promote, same, same_as
from tcdsl.ops.table import Family, op_of_text, publish

ops = Family(__file__)


def _of_ger(operands: Operands) -> None:
    for name, vector in zip(("self", "vec2"), operands, strict=True):
        if vector.ndim != 1:
            raise RuntimeError(f"outer: Expected 1-D argument {name}, but got {vector.ndim}-D")


def _of_mm(operands: Operands) -> None:
    a, b = operands
    if a.ndim == 2 and b.ndim == 2 and a.shape[1] == b.shape[0]:
        return
    for name, x in (("self", a), ("mat2", b)):
        if x.ndim != 2:
            raise RuntimeError(f"{name} must be a matrix")
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({a.shape[0]}x{a.shape[1]} and "
            f"{b.shape[0]}x{b.shape[1]})"
        )


def _of_mv(operands: Operands, given: int | None = None) -> None:
    """given: the extent of what the product is added to."""
    a, x = operands
    if a.ndim != 2 or x.ndim != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got 1, {a.ndim}, {x.ndim}")
    rows, columns = a.shape
    (length,) = x.shape
    if columns != length:
        raise RuntimeError(
            f"size mismatch, got input ({rows if given is None else given}), "
            f"mat ({rows}x{columns}), vec ({length})"
        )


def _of_dot(operands: Operands) -> None:
    a, b = operands
    if a.ndim != 1 or b.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {a.ndim}D and {b.ndim}D tensors")
    if a.shape != b.shape:
        raise RuntimeError(
            "inconsistent tensor size, expected tensor "
            f"{list(a.shape)} and src {list(b.shape)} to have the same number of elements, "
            f"but got {a.numel()} and {b.numel()} elements respectively"
        )


def _of_bmm(operands: Operands) -> None:
    a, b = operands
    for name, x in (("batch1", a), ("batch2", b)):
        if x.ndim != 3:
            raise RuntimeError(f"{name} must be a 3D tensor")
    if a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1]:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: "
            f"[{a.shape[0]}, {a.shape[2]}] but got: [{b.shape[0]}, {b.shape[1]}]."
        )


def _of_linear(operands: Operands) -> None:
    x, w = operands[:2]
    if w.ndim != 2 or not x.ndim or x.shape[-1] != w.shape[1]:
        rows = x.numel() // x.shape[-1] if x.ndim and x.shape[-1] else 0
        last = x.shape[-1] if x.ndim else 0
        shape = f"{w.shape[1]}x{w.shape[0]}" if w.ndim == 2 else list(w.shape)
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({rows}x{last} and {shape})")
    for bias in operands[2:]:
        if bias.shape != (w.shape[0],):
            bias.expand(*x.shape[:-1], w.shape[0])  # raises


def _types_of_linear(operands: Operands) -> DType:
    x, w = operands[:2]
    if len(operands) == 2:
        return _MM(operands)
    if x.dtype is not w.dtype:
        raise RuntimeError(
            f"mat1 and mat2 must have the same dtype, but got {NAMES[x.dtype.name]} and "
            f"{NAMES[w.dtype.name]}"
        )
    return same(operands)


def _types_of_dot(operands: Operands) -> DType:
    a, b = (x.dtype for x in operands)
    if a is not b:
        raise RuntimeError(
            "dot : expected both vectors to have same dtype, but found "
            f"{NAMES[a.name]} and {NAMES[b.name]}"
        )
    return same(operands)


def _types_of_sum(operands: Operands) -> DType:
    """Return the type of a matrix and a product that is added to it."""
    for name, x in zip(("mat2", "mat1"), reversed(operands[1:3]), strict=True):
        if isinstance(x, Tensor) and x.dtype is not operands[0].dtype:
            raise RuntimeError(
                f"self and {name} must have the same dtype, but got "
                f"{NAMES[operands[0].dtype.name]} and {NAMES[x.dtype.name]}"
            )
    return same(operands)


_MM = same_as("expected m1 and m2 to have the same dtype, but got: {} != {}")
dot = ops.row("dot", types=_types_of_dot, shape=_of_dot)
mv = ops.row("mv", shape=_of_mv)
mm = lower(ops.row("mm", types=_MM, shape=_of_mm))
bmm = lower(ops.row("bmm", shape=_of_bmm))
ger = ops.row("ger", types=promote, shape=_of_ger, aliases=("outer",))
_matmul = lower(ops.op("matmul"))
_dot_of_matmul = lower(
    ops.op("dot", types=_types_of_dot, shape=_of_dot)
)  # dot and mv themselves are not lowered
_mv_of_matmul = lower(ops.op("mv", shape=_of_mv))
_linear = lower(ops.op("linear", types=_types_of_linear, shape=_of_linear))
_linear_bias = lower(ops.op("linear_bias", types=_types_of_linear, shape=_of_linear))
_bilinear = ops.op("bilinear")
_FLATTENED = "UnsafeViewBackward0"  # what PyTorch makes last of products of batches


def matmul(input: Tensor, other: Tensor) -> Tensor:
    """Multiply vectors, matrices or batches of matrices, by NumPy's rules.

    Parameters
    ----------
    input : Tensor, shape (..., M, K) or (K,)
    other : Tensor, shape (..., K, N) or (K,)

    Returns
    -------
    Tensor, shape (..., M, N), without M or N where that operand is a vector
    """
    try:
        a, b = input.ndim, other.ndim
    except AttributeError:
        wrong = other if isinstance(input, Tensor) else input
        raise TypeError(
            f"matmul(): argument '{'other' if wrong is other else 'input'}' must be Tensor, not "
            f"{type(wrong).__name__}"
        ) from None
    if a == 2 and b == 2:
        found: Tensor = mm(input, other)
        return found
    if a == 0 or b == 0:
        raise RuntimeError(
            f"both arguments to matmul need to be at least 1D, but they are {a}D and {b}D"
        )
    if a == 1 and b == 1:
        found = _dot_of_matmul(input, other)
    elif a == 2 and b == 1:
        found = _mv_of_matmul(input, other)
    elif a == 1:
        found = made_by(matmul(input.unsqueeze(0), other).squeeze(-2), _FLATTENED)
    elif b == 1:
        if input.shape[-1] != other.shape[0]:
            _of_mv((_Shaped(_as_matrix(input.shape)), other))
        found = made_by(matmul(input, other.unsqueeze(1)).squeeze(-1), _FLATTENED)
    else:
        if b == 2 and input.shape[-1] != other.shape[0]:
            _of_mm([_Shaped(_as_matrix(input.shape)), other])
        batch = broadcast_shape([tuple(input.shape[:-2]), tuple(other.shape[:-2])])
        if input.shape[-1] != other.shape[-2]:
            count = math.prod(batch)
            _of_bmm([_Shaped((count, *x.shape[-2:])) for x in (input, other)])
        if b == 2:  # one product of a tall matrix
            rows = input.reshape(-1, input.shape[-1]) if input.numel() else None
            if rows is not None and input.is_contiguous():
                tall = mm(rows, other).view(*input.shape[:-1], other.shape[-1])
                return made_by(tall, _FLATTENED)
        found = _matmul(input, other)
    return found


class _Shaped:
    """What a rule of shapes asks of an operand."""

    def __init__(self, shape: Sequence[int]) -> None:
        self.shape, self.ndim = tuple(shape), len(shape)


def _as_matrix(shape: Sequence[int]) -> tuple[int, int]:
    """Return a shape with all dimensions but the last as one."""
    return math.prod(shape[:-1]), shape[-1]


def _sum_row(name: str) -> Op:
    """Return the row of a sum with a product; calls that name ``beta`` or ``alpha`` are scaled."""
    types, shape = _types_of_sum if name == "addmm" else same, partial(_check_sum, name)
    plain = ops.op(name, types=types, shape=shape, spread=partial(_spread_to_product, name))
    scaled = ops.op(f"{name}_scaled", types=types)
    params = plain.forms.params

    def added(*args: Any, beta: Any = 1, alpha: Any = 1, out: Any = None, **named: Any) -> Tensor:
        if len(args) == 5:  # addmm(beta, input, alpha, mat1, mat2), as PyTorch 0.4 has it
            beta, alpha, args = args[0], args[2], (args[1], *args[3:])
        elif len(args) == 4 and not isinstance(args[0], Tensor):
            beta, args = args[0], args[1:]
        if named or len(args) != 3:
            args = (*args, *(named.pop(p, None) for p in params[len(args) :]))
        if named or len(args) != 3:
            raise _no_operands(name)
        given = {} if out is None else {"out": out}
        if type(beta) is int and type(alpha) is int and beta == alpha == 1:
            return plain(*args, **given)  # type: ignore[no-any-return]
        input, a, b = _spread_to_product(name, args) or args
        return scaled(input, a, b, beta, alpha, **given)  # type: ignore[no-any-return]

    added.__name__ = name
    added.__doc__ = f"Return ``beta * input + alpha * product``, as {name} of the text."
    return ops.row(
        name,
        types=types,
        shape=shape,
        spread=partial(_spread_to_product, name),
        slow=added,
        inplace=True,
        inplace_on=("Tensor",),
    )


def _no_operands(name: str) -> TypeError:
    params = [p.name for p in ops.session.definition(name).params]
    return TypeError(f"{name}() takes the Tensors {', '.join(params)}, and beta, alpha, out")


def _spread_to_product(name: str, operands: Operands) -> Operands | None:
    """Return operands of which the first is expanded to the shape of a product; None if it is so.

    Raises
    ------
    TypeError, RuntimeError
        If they are no Tensors, or their shapes do not fit.
    """
    input, a, b = operands
    shape = _shape_of(name, input, a, b)
    return None if input.shape == shape else (input.expand(shape), a, b)


def _check_sum(name: str, operands: Operands) -> None:
    """Refuse an input that is not of the product's shape: one that is written is not expanded."""
    input, *factors = operands
    shape = _shape_of(name, input, *factors)
    if input.shape != shape:
        raise RuntimeError(
            f"Bad in-place call: input tensor size {list(input.shape)} and output tensor size "
            f"{list(shape)} should match"
        )


def _are_tensors(a: Any, b: Any, c: Any) -> bool:
    return isinstance(a, Tensor) and isinstance(b, Tensor) and isinstance(c, Tensor)


def _shape_of(name: str, input: Tensor, a: Tensor, b: Tensor) -> tuple[int, ...]:
    """Return the shape of a product, or raise in PyTorch's words."""
    if not _are_tensors(input, a, b):
        raise _no_operands(name)
    if name == "addmv":
        _of_mv((a, b), input.shape[0] if input.ndim == 1 else None)
        rows, _ = a.shape
        return (rows,)
    if name == "addr":
        for said, vector in (("vec1", a), ("vec2", b)):
            if vector.ndim != 1:
                raise RuntimeError(f"addr: Expected 1-D argument {said}, but got {vector.ndim}-D")
        return (a.shape[0], b.shape[0])
    if name == "addmm":
        _of_mm((a, b))
        return (a.shape[0], b.shape[1])
    _of_bmm((a, b))
    batch = () if name == "addbmm" else (a.shape[0],)
    return (*batch, a.shape[1], b.shape[2])


addmv, addmm, addr = _sum_row("addmv"), lower(_sum_row("addmm")), _sum_row("addr")
baddbmm, _addbmm = lower(_sum_row("baddbmm")), lower(_sum_row("addbmm"))
_MANY = 1 << 16  # elements of a batch from which on one long product is worth a copy of it


def addbmm(*args: Any, **named: Any) -> Tensor:
    """Return ``beta * input + alpha * sum of products`` of the matrices of two batches."""
    if len(args) == 3 and not named and _are_tensors(*args):
        input, a, b = args
        if a.ndim == 3 and b.ndim == 3 and a.numel() >= _MANY and a.shape[::2] == b.shape[:2]:
            row = a.transpose(0, 1).reshape(a.shape[1], -1), b.reshape(-1, b.shape[2])
            return made_by(addmm(input, *row), "AddbmmBackward0")
    found: Tensor = _addbmm(*args, **named)
    return found


publish(addbmm, ("addbmm",))


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Apply an affine map to the last dimension: ``sum(input * weight[o]) + bias[o]``.

    Parameters
    ----------
    input : Tensor, shape (..., I)
    weight : Tensor, shape (O, I)
    bias : Tensor, shape (O,) or one that broadcasts to that of the result, optional

    Returns
    -------
    Tensor, shape (..., O)
    """
    found: Tensor
    if bias is None:
        found = _linear(input, weight)
        return found
    try:
        found = _linear_bias(input, weight, bias)
    except ShapeError:  # no bias a column
        found = _linear(input, weight)
        found = found + bias.expand(found.shape)
    return found


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return ``sum(input1[i] * weight[o, i, j] * input2[j]) + bias[o]``."""
    found: Tensor = _bilinear(input1, input2, weight)
    return found if bias is None else found + bias


# ---- einsum


def einsum(equation: str, *operands: Any) -> Tensor:
    """Sum products of elements whose indices are letters, as NumPy's and PyTorch's einsum.

    Parameters
    ----------
    equation : str
        ``"ij,jk->ik"``. A letter that is in no result is summed over; one that stands twice in an
        operand takes its diagonal; ``...`` are dimensions that broadcast. Without ``->`` the result
        has the letters that stand once, in the order of the alphabet.
    operands : Tensors, or one sequence of them

    References
    ----------
    A statement of several factors is formed in pairs by the compiler, in the order of least work.
    """
    if len(operands) == 1 and isinstance(operands[0], list | tuple):
        operands = tuple(operands[0])
    shapes = tuple(tuple(x.shape) for x in operands)
    _check_einsum(equation, shapes)
    ones = tuple(tuple(n == 1 for n in s) for s in shapes)
    text = _einsum_text(equation.replace(" ", ""), tuple(map(len, shapes)), ones)
    if is_casting() and "+=!" in text and len(operands) > 1:
        operands = tuple(map(lowered, operands))
    found: Tensor = op_of_text(text, node=_node_of_einsum(text, len(operands)))(*operands)
    return found


def _node_of_einsum(text: str, count: int) -> str:
    """Return what recorded calls are called: PyTorch sums by a product, which it views."""
    if "+=!" in text:
        return "SumBackward1" if count == 1 else "ViewBackward0"
    return "PermuteBackward0" if count == 1 else "MulBackward0"


def _check_einsum(equation: str, shapes: Sequence[tuple[int, ...]]) -> None:
    """Refuse a letter that stands for two sizes, in PyTorch's words; all else is found later."""
    known: dict[str, int] = {}
    terms = equation.replace(" ", "").partition("->")[0].split(",")
    for n, (term, shape) in enumerate(zip(terms, shapes, strict=False)):
        before, dots, behind = term.partition("...")
        places = [*enumerate(before)]
        if dots:
            places += [(i - len(behind), c) for i, c in enumerate(behind)]
        if len(places) > len(shape):
            return
        for at, letter in places:
            size = shape[at]
            if known.get(letter, 1) == 1:
                known[letter] = size
            elif size not in (1, known[letter]):
                raise RuntimeError(
                    f"einsum(): subscript {letter} has size {size} for operand {n} which does not "
                    f"broadcast with previously seen size {known[letter]}"
                )


@cache
def _einsum_text(equation: str, ranks: tuple[int, ...], ones: tuple[tuple[bool, ...], ...]) -> str:
    """Return the text of an equation: ``out(i, k) +=! x0(i, j) * x1(j, k)``."""
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise RuntimeError(
            "einsum(): more operands were provided than specified in the equation"
            if len(terms) < len(ranks)
            else "einsum(): fewer operands were provided than specified in the equation"
        )
    width = 0
    subscripts: list[list[str]] = []
    for n, (term, rank) in enumerate(zip(terms, ranks, strict=True)):
        letters = term.replace("...", "")
        if any(c not in string.ascii_letters for c in letters):
            raise RuntimeError(f"einsum(): invalid subscript given in the equation: '{term}'")
        dots = rank - len(letters)
        if dots < 0 or (dots and "..." not in term):
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({len(letters)}) does not "
                f"match the number of dimensions ({rank}) for operand {n} "
                "and no ellipsis was given"
            )
        width = max(width, dots)
        before, _, behind = term.partition("...")
        subscripts.append([*before, *(f".{d}" for d in range(-dots, 0)), *behind])
    if arrow:
        before, has_dots, behind = right.partition("...")
        out = [*before, *([f".{d}" for d in range(-width, 0)] if has_dots else []), *behind]
    else:
        once = sorted(c for c in set(left) - {",", "."} if left.count(c) == 1)
        out = [*(f".{d}" for d in range(-width, 0)), *once]
    names = {
        s: f"e{s[2:]}" if s[0] == "." else s if s.islower() else f"{s.lower()}_"
        for subscript in subscripts
        for s in subscript
    }
    for s in out:
        if s not in names:
            raise RuntimeError(
                f"einsum(): output subscript {s} does not appear in the equation for any input "
                "operand"
            )
        if out.count(s) > 1:
            raise RuntimeError(
                f"einsum(): output subscript {s} appears more than once in the output"
            )
    wide = {  # subscripts that an operand has more than one element of: 1 is repeated there
        s for subscript, one in zip(subscripts, ones, strict=True)
        for s, is_one in zip(subscript, one, strict=True) if not is_one
    }  # fmt: skip
    params, factors = [], []
    for n, (subscript, one) in enumerate(zip(subscripts, ones, strict=True)):
        repeated = [is_one and s in wide for s, is_one in zip(subscript, one, strict=True)]
        sizes = ["1" if r else f"N_{names[s]}" for s, r in zip(subscript, repeated, strict=True)]
        reads = ["0" if r else names[s] for s, r in zip(subscript, repeated, strict=True)]
        params.append(f"T{_list(sizes)} x{n}")
        factors.append(f"x{n}{_list(reads)}")
    sizes = [f"N_{names[s]}" for s in out]
    summed = set(names) - set(out)
    target, reduced = _list([names[s] for s in out]), "+=!" if summed else "="
    return (
        f"def einsum<T>({', '.join(params)}) -> (T{_list(sizes)} out) {{\n"
        f"  out{target} {reduced} {' * '.join(factors)}\n}}"
    )


def _list(items: Sequence[str]) -> str:
    return f"({', '.join(items)})" if items else ""


publish(einsum, ("einsum",), on=("torch",))
publish(matmul, ("matmul",))
operator("__matmul__", matmul)
