"""Sums of products by letters: einsum."""

from __future__ import annotations

import string
from collections.abc import Sequence
from functools import cache
from typing import Any

from tcdsl.core import Tensor, is_casting
from tcdsl.ops.casting import lowered
from tcdsl.ops.table import op_of_text, publish

_BY_NUMBER = string.ascii_uppercase + string.ascii_lowercase  # of indices that are numbers


def einsum(equation: Any, *operands: Any) -> Tensor:
    """Sum products of elements whose indices are letters, as NumPy's and PyTorch's einsum.

    Parameters
    ----------
    equation : str
        ``"ij,jk->ik"``. A letter that is in no result is summed over; one that stands twice in an
        operand takes its diagonal; ``...`` are dimensions that broadcast. Without ``->`` the result
        has the letters that stand once, in the order of the alphabet.
    operands : Tensors, or one sequence of them

    Each operand may be followed by its indices in place of an equation, numbers from 0 to 51 and
    ``...``, and all of them by those of the result: ``einsum(a, [0, 1], b, [1, 2], [0, 2])``.

    References
    ----------
    A statement of several factors is formed in pairs by the compiler, in the order of least work.
    """
    if isinstance(equation, Tensor):
        equation, operands = _of_numbers((equation, *operands))
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


def _of_numbers(given: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """Return an equation and operands where each operand is followed by numbers of its indices."""
    count = len(given) // 2
    equation = ",".join(map(_letters, given[1 : 2 * count : 2]))
    if len(given) % 2:
        equation += "->" + _letters(given[-1])
    return equation, given[: 2 * count : 2]


def _letters(numbers: Any) -> str:
    if not all(n is Ellipsis or 0 <= n < 52 for n in numbers):
        raise ValueError(
            "einsum(): subscript in subscript list is not within the valid range [0, 52)"
        )
    return "".join("..." if n is Ellipsis else _BY_NUMBER[n] for n in numbers)


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
            raise RuntimeError(
                f"einsum(): invalid subscript given in the equation: '{term}', subscripts must be "
                "in [a-zA-Z]"
            )
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
