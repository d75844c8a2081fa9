"""Derivatives as lists and texts, which files can hold; what is read is checked."""

from __future__ import annotations

from tcdsl.codegen.gradient.derivatives import Given, Gradient, Tangents
from tcdsl.grammar.proofs import plain


def of_gradient(made: Gradient) -> list[object]:
    """Return what `gradient` reads."""
    given = [[g.name, g.output, [plain.plain(n) for n in g.shape]] for g in made.given]
    texts = [made.name, made.wrt, made.text, made.forward, made.kept, made.extra]
    return [*texts, given, plain.plain(made.memory)]


def gradient(value: object) -> Gradient:
    """Return the gradient that `of_gradient` made a list of.

    Raises
    ------
    ValueError
        If it is anything else.
    """
    match value:
        case [str(name), wrt, str(text), str(forward), kept, extra, list(given), memory]:
            names = _texts(wrt), _texts(kept), _texts(extra)
            behind = tuple(map(_given, given))
            size = plain.from_plain(memory)
            return Gradient(name, names[0], text, forward, names[1], names[2], behind, size)
    raise ValueError("it is no gradient")


def of_tangents(made: Tangents) -> list[object]:
    """Return what `tangents` reads."""
    return [made.name, made.wrt, made.text, made.given, made.results, made.extra]


def tangents(value: object) -> Tangents:
    """Return the tangents that `of_tangents` made a list of.

    Raises
    ------
    ValueError
        If it is anything else.
    """
    match value:
        case [str(name), wrt, str(text), given, results, extra]:
            return Tangents(name, _texts(wrt), text, _texts(given), _texts(results), _texts(extra))
    raise ValueError("they are no tangents")


def _texts(value: object) -> tuple[str, ...]:
    if not (isinstance(value, list) and all(isinstance(v, str) for v in value)):
        raise ValueError("expected a list of texts")
    return tuple(value)


def _given(value: object) -> Given:
    match value:
        case [str(name), str(output), list(shape)]:
            return Given(name, output, tuple(map(plain.from_plain, shape)))
    raise ValueError("it is no parameter of a gradient")
