"""Statements in order, and calls: a callee is checked in a frame of its own, inside the caller."""

from __future__ import annotations

from collections.abc import Iterable

from tcdsl.grammar import nodes as n
from tcdsl.grammar import typed as t
from tcdsl.grammar.scope import FaultError, Frame, SilentError
from tcdsl.grammar.session import Session
from tcdsl.grammar.statement import check_comprehension


def check_body(session: Session, frame: Frame, body: Iterable[n.Stmt]) -> tuple[t.Stmt, ...]:
    """Return the checked statements; what is wrong goes to the session."""
    done: list[t.Stmt] = []
    for node in body:
        try:
            match node:
                case n.Comprehension():
                    done.append(check_comprehension(session, frame, node))
                case n.MultiCall():
                    raise FaultError("TC122", "calls are not available yet", node.span)
                case n.ForLoop():
                    raise FaultError("TC194", "'for' is not available yet", node.span)
        except FaultError as fault:
            session.report(fault.diagnostic)
        except SilentError:
            continue
    return tuple(done)
