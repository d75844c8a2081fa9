"""Sizes on the command line."""

from __future__ import annotations

import click
import pytest

from tcdsl.cli.sizes import parse_sizes


def test_single_sizes() -> None:
    assert parse_sizes("B=100, M=128") == [{"B": 100, "M": 128}]


def test_lists_and_ranges_combine() -> None:
    assert parse_sizes("B=1|3..4,N=2") == [{"B": b, "N": 2} for b in (1, 3, 4)]


@pytest.mark.parametrize("text", ["B", "B=", "B=x", "B=1..2..3", "B=5..2", "B=1,B=2", "B=-1"])
def test_what_cannot_be_read_says_how_to_write_it(text: str) -> None:
    with pytest.raises(click.UsageError, match=r"--sizes: .*(write sizes as|is empty)"):
        parse_sizes(text)
