"""A gradient that takes nothing kept: one definition of the forward pass and the way back.

    def d_f(A, d_Y) -> (d_A) {
      Y, Z = forward(A)
      d_A = backward(A, Y, Z, d_Y)
    }

What is kept is a function of the parameters. The gradient alone takes it as given; only the
gradient of this one is the second derivative of f.
"""

from __future__ import annotations

from dataclasses import replace

from tcdsl.codegen.gradient.derivatives import FORWARD, GRADIENT, Gradient
from tcdsl.grammar.text import nodes as n
from tcdsl.grammar.text.fresh import fresh
from tcdsl.grammar.text.parser import parse
from tcdsl.grammar.text.stack import on_own_stack
from tcdsl.grammar.text.walk import identifiers


@on_own_stack
def whole(gradient: Gradient) -> n.Program:
    """Return a program in which a gradient computes what it needs of the forward pass.

    Its last definition has the name and the returns of the gradient, and the gradient's parameters
    but those kept.

    Examples
    --------
    >>> from tcdsl.codegen.gradient.vjp import gradient
    >>> from tcdsl.grammar.check.definition import check
    >>> from tcdsl.grammar.text.format import format_def
    >>> text = "def f(float(N) A) -> (s, q) { s +=! A(i) q = s * s }"
    >>> print(format_def(whole(gradient(check(parse(text)))).defs[-1]))
    def d_f(float32(N) A, float32 d_s, float32 d_q) -> (d_A) {
      s, q = forward(A)
      d_A = backward(A, s, d_s, d_q)
    }
    """
    backward = parse(gradient.text, GRADIENT)
    if not gradient.kept:
        return backward
    forward = parse(gradient.forward, FORWARD)
    taken = {*identifiers(forward), *identifiers(backward)}
    first = replace(forward.defs[0], name=fresh("forward", taken))
    second = replace(backward.defs[0], name=fresh("backward", taken))
    params = tuple(p for p in second.params if p.name not in gradient.kept)
    returns = tuple(n.Param(r.name, None) for r in second.returns)  # as the call leaves them
    head = n.Def(gradient.name, (), params, returns, (_call(first), _call(second)))
    return n.Program((first, second, head))


def _call(callee: n.Def) -> n.Stmt:
    """Return a call that names arguments and results as the callee does."""
    targets = tuple(n.Target(r.name, None) for r in callee.returns)
    args = tuple(n.Name(p.name) for p in callee.params)
    if len(targets) == 1:
        return n.Comprehension(targets[0], "=", n.Apply(callee.name, args))
    return n.MultiCall(targets, callee.name, args)
