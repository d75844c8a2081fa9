"""Every program that users of the original wrote checks, with the shapes and types they saw."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.errors import TCError
from tcdsl.grammar.text.parser import parse
from tcdsl.grammar.types.dtypes import BY_NAME
from tcdsl.grammar.types.typed import CheckedDef
from tests.tiers import sampled

DATA = Path(__file__).parents[2] / "data"
CATALOG: list[dict[str, Any]] = json.loads((DATA / "tc_catalog.json").read_text())
# These two entries of the catalog are named after the page they are from, not after their def.
NAMES = {"docs_fixed/lut_clamped": "lut", "docs_fixed/average_pool_2_where": "average_pool_2"}
LEGAL = [e for e in CATALOG if e.get("status") != "unsupported"]


def checked(entry: dict[str, Any]) -> CheckedDef:
    program = parse(entry["tc"], entry["name"])
    return check(program, NAMES.get(entry["name"], entry["def_name"]))


def holds(relation: str, value: int) -> bool:
    return value >= 0 if relation == ">=0" else value == 0


@sampled("entry", LEGAL, ids=lambda e: e["name"], keep=30)
def test_catalog_program_has_the_types_and_shapes_of_the_original(entry: dict[str, Any]) -> None:
    definition = checked(entry)
    sizes = entry.get("sizes") or entry["suggested_sizes"]
    for output in entry["outputs"]:
        tensor = definition.tensor(output["name"])
        assert tensor.role == "return"
        assert tensor.dtype == BY_NAME[entry["out_dtypes"][output["name"]]]
        if "extent" in output:
            assert [d.evaluate(sizes) for d in tensor.shape] == output["extent"]
            assert [d.evaluate(sizes) for d in tensor.low] == output["min"]
    assert all(holds(c.relation, c.size.evaluate(sizes)) for c in definition.constraints)
    assert bool(definition.warnings) == (entry.get("status") == "warn")


def test_the_catalog_entry_with_a_triangular_domain_is_refused() -> None:
    (entry,) = [e for e in CATALOG if e.get("status") == "unsupported"]
    with pytest.raises(TCError):
        checked(entry)
