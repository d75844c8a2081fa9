"""Every emitted text stays what it is: hashes of units of all forms, on both targets.

`tests/golden/texts` has a file for each part of the programs (`golden_programs.py`): a line for
each program, machine and kind of spec, with the hashes of its texts, the default config's first;
behind them the forms and values of knobs that the part has met, each followed by all that were on
offer.
Refresh by `pytest --wide --update-golden tests/codegen/test_golden_texts.py`, and read the diff.

Left out to keep the whole under two minutes: programs of the catalog that are like others of it
(26 of 131 are in), and the gradients of all but a few of each source.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import pytest

from tests.codegen.golden_programs import PARTS, item
from tests.codegen.golden_texts import (
    FORMS,
    SAMPLE,
    TUNED,
    Seen,
    default_configs,
    line_of,
    part_lines,
)
from tests.conftest import GOLDEN
from tests.tiers import sampled

TEXTS = GOLDEN / "texts"

pytestmark = pytest.mark.cc  # examples are checked by kernels, and a kernel asks for a machine

# What texts call the kinds of units, numbers as #; each of these has to be in the net.
KINDS = {
    "c": (
        "arg reduction in lanes",
        "chain #x#, rows, #x# in blocks of #, what is empty skipped",
        "column reduction in parts, vectors",
        "contraction dot",
        "contraction dot + epilogue",
        "contraction panel #x# packed a b",
        "contraction panel #x# packed b + epilogue",
        "contraction panel any tile packed a b",
        "contraction panel or dot any tile + epilogue",
        "contraction panel or stream any tile",
        "contraction stream #x#",
        "convolution #x#",
        "convolution #x# + epilogue",
        "convolution weights #x#x# packed b",
        "gather of rows",
        "nest",
        "nest, points that meet in order",
        "pointwise, simd",
        "pointwise, turned tiles",
        "pointwise, vectors",
        "reduction along columns, vectors",
        "row reduction in parts, vectors",
        "row reduction, vectors",
        "rows of # sweeps along columns, vectors",
        "rows of # sweeps, # at a time, and across them in parts, vectors",
        "rows of # sweeps, vectors",
        "scatter by rows",
        "scatter in order",
        "scatter to copies",
    ),
    "cuda": (
        "columns of # sweeps, # threads to a row",
        "mma #x#x# of #x#",
        "mma #x#x# of #x# + epilogue",
        "mma #x#x# of #x# in # parts",
        "nest",
        "nest, atomic",
        "nest, points that meet in chains by pairs",
        "nest, points that meet in chains by ranges",
        "nest, points that meet in order",
        "permute #x#",
        "pointwise, # x #",
        "reduction along columns, # threads to a row, # blocks to a row",
        "reduction along rows, # threads to a row, # blocks to a row",
        "rows of # sweeps, # threads to a row",
        "rows of # sweeps, # threads to a row, in registers",
        "simt #x#x# of #x#",
        "simt #x#x# of #x# + epilogue",
        "simt #x#x# of #x# in # parts + epilogue",
    ),
}


@sampled("part", PARTS, keep=0, wide=9)
def test_texts_of_a_part_stay(part: str, golden: Callable[[str, str], None]) -> None:
    lines, seen = part_lines(part)
    golden("\n".join([*lines, "", *seen.lines(), ""]), f"texts/{part}.txt")


@pytest.mark.wide
def test_one_text_of_every_form_stays() -> None:
    seen = Seen()
    stored = _stored()
    for name, label, configs in SAMPLE:
        line = line_of(item(name), label, seen, configs)
        assert stored[line.rpartition(" | ")[0]].startswith(line), "see test_texts_of_a_part_stay"
    assert dict(seen.names) == FORMS


@pytest.mark.wide
def test_default_configs_stay(golden: Callable[[str, str], None]) -> None:
    golden(default_configs(TUNED), "texts/default_configs.json")


def test_the_net_has_every_form_and_kind(golden: Callable[[str, str], None]) -> None:
    """Values of knobs that no unit has stand in a file of their own: they may only get fewer."""
    assert {p.stem for p in TEXTS.glob("*.txt")} == set(PARTS)
    facts: dict[tuple[str, str], set[str]] = defaultdict(set)
    met: dict[str, set[str]] = defaultdict(set)
    offered: dict[str, set[str]] = defaultdict(set)
    for path in sorted(TEXTS.glob("*.txt")):
        for line in path.read_text().partition("\n\n")[2].splitlines():
            language, fact, name, *values = line.split(" | ")
            facts[language, fact].add(name)
            if fact == "knob":
                met[f"{language} {name}"].update(values[0].split())
                offered[f"{language} {name}"].update(values[1].split())
    for language, forms in FORMS.items():
        assert facts[language, "form"] == forms
        assert set(KINDS[language]) - facts[language, "kind"] == set()
    missed = {name: sorted(offered[name] - met[name]) for name in sorted(offered)}
    lines = [f"{name}: {' '.join(values)}\n" for name, values in missed.items() if values]
    golden("".join(lines), "texts/not_met")


def _stored() -> dict[str, str]:
    """Return the stored lines by program and target."""
    lines = [
        line
        for path in sorted(TEXTS.glob("*.txt"))
        for line in path.read_text().partition("\n\n")[0].splitlines()
    ]
    return {line.rpartition(" | ")[0]: line for line in lines}
