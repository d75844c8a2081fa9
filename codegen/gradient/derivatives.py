"""What a derivative is: definitions as TC text, and what they take and give.

Whoever reads one that was made before needs nothing of what makes one.
"""

from __future__ import annotations

from tcdsl.grammar.proofs.sizes import Size
from tcdsl.grammar.text.dataclass import dataclass

# What messages call the texts.
GRADIENT, FORWARD, TANGENTS = "<gradient>", "<forward pass>", "<tangents>"


@dataclass(frozen=True, slots=True)
class Given:
    """A parameter of a gradient that f has not: its extents in the sizes of f.

    output: the return of f whose adjoint it is, "" for what is kept of the forward pass.
    """

    name: str
    output: str
    shape: tuple[Size, ...]


@dataclass(frozen=True, slots=True)
class Gradient:
    """Two definitions as TC text.

    text: the vector-Jacobian product: its parameters are those of f, then kept, then `d_O` for each
    float return; its returns `d_X` for each parameter of wrt, in that order. forward: f with the
    outputs `extra` besides its own. kept: what of both the gradient takes, by its name there.
    given: the parameters behind those of f, the kept ones first. memory: the bytes of extra.
    """

    name: str
    wrt: tuple[str, ...]
    text: str
    forward: str
    kept: tuple[str, ...]
    extra: tuple[str, ...]
    given: tuple[Given, ...]
    memory: Size


@dataclass(frozen=True, slots=True)
class Tangents:
    """A definition that computes what another does, and its tangents, as TC text.

    Its parameters are those of f, then `given`, `t_X` for each parameter of wrt, in that order; its
    returns those of f, then `results`, `t_O` for each float return, then `extra`, which only a head
    gives a box: what definitions that f calls scatter into.
    """

    name: str
    wrt: tuple[str, ...]
    text: str
    given: tuple[str, ...]
    results: tuple[str, ...]
    extra: tuple[str, ...]
