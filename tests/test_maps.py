"""The README of a package lists the files of each of its rooms, and no others."""

from __future__ import annotations

import re

import pytest

from tests.test_layers import ROOMS, ROOT


@pytest.mark.parametrize("room", [r for r in ROOMS if r.startswith("grammar/")])
def test_the_map_of_a_room_has_its_files(room: str) -> None:
    package, _, name = room.partition("/")
    text = (ROOT / package / "README.md").read_text(encoding="utf-8")
    (table,) = re.findall(rf"^## {name}: .*\n\n((?:\|.*\n)+)", text, re.MULTILINE)
    rows = [row.split("|")[1] for row in table.splitlines()[2:]]
    listed = [file for row in rows for file in re.findall(r"`([\w.]+)`", row)]
    there = {p.name for p in (ROOT / room).iterdir() if p.suffix in (".py", ".lark")}
    assert sorted(listed) == sorted(there - {"__init__.py"})
