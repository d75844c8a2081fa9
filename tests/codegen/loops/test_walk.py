"""Walkers over nests."""

from __future__ import annotations

from typing import get_args

from tcdsl.codegen.loops import loopir, walk


def test_walkers_know_every_node() -> None:
    assert set(get_args(loopir.Expr)) == walk.BELOW.keys()
    assert set(get_args(loopir.Stmt)) == walk.INSIDE.keys() == walk.OWN.keys()
