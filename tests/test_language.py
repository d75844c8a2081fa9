"""grammar/LANGUAGE.md is true: its tables are those of the code, its examples run."""

from __future__ import annotations

import builtins
import re
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.calls.arguments import Arguments
from tcdsl.codegen.program.dtypes import numpy_dtype
from tcdsl.grammar.text.codes import explanations
from tcdsl.grammar.text.errors import TCError
from tcdsl.grammar.text.heads import type_variables
from tcdsl.grammar.text.layout import format_text
from tcdsl.grammar.types.builtins import BUILTINS
from tcdsl.grammar.types.dtypes import BY_NAME, FLOAT32
from tcdsl.kernel import Kernel
from tests.language_tables import filled
from tests.tcdsl.differential import Array, reference, results

PATH = Path(__file__).parent.parent / "grammar" / "LANGUAGE.md"
LANGUAGE = PATH.read_text(encoding="utf-8")
TEXTS = re.findall(r"^```tc\n(.*?)^```$", LANGUAGE, re.MULTILINE | re.DOTALL)
FAULT = re.compile(r"^# (?:error|warning)\[(TC\d{3})\]$", re.MULTILINE)
CALL = re.compile(r"^# (\w+)\((.*)\) -> (.*)$", re.MULTILINE)
HEAD = "def f(float(N) A, float(M, K) B, int32(N) I, float s) -> (O)"
CALLEE = "def g<S=1>(float(N) x, float(N) y) -> (z) { z(i) = x(S * i) * y(i) }"


def checked(kernel: Kernel, given: dict[str, Any], *, fills: bool) -> list[str]:
    """Check a kernel at some rank and return the codes of its warnings.

    fills: generics that are not given are 1, type variables float32.
    """
    definition = kernel.definition
    generics = dict(given)
    if fills:
        types = type_variables(definition)
        missing = [g for g in definition.generics if g.default is None and g.name not in given]
        generics |= {g.name: FLOAT32 if g.name in types else 1 for g in missing}
    made = kernel.with_rank(2) if kernel.has_any_rank else kernel
    return [w.code for w in made.variant(**generics).checked.warnings]


def codes(text: str, *, fills: bool = False) -> list[str]:
    """Return the codes of the faults of a text, or of its warnings where it has none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            kernels = tc.define_all(text, tune="off")
            return [code for k in kernels for code in checked(k, {}, fills=fills)]
        except TCError as error:
            return [d.code for d in error.diagnostics]


def test_the_tables_are_those_of_the_code(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-golden"):
        PATH.write_text(filled(LANGUAGE), encoding="utf-8")
    else:
        assert filled(LANGUAGE) == LANGUAGE, "run pytest --update-golden and read the diff"


def test_the_texts_are_laid_out_and_each_is_right_or_has_the_fault_that_it_names() -> None:
    assert len(TEXTS) > 25
    for text in TEXTS:
        assert format_text(text) == text
        assert codes(text, fills=True) == FAULT.findall(text), text


class Call(NamedTuple):
    """A call that stands behind a text, and what it gives."""

    kernel: Kernel
    args: list[Array]
    generics: dict[str, int]
    want: str

    def runs(self, run: Callable[[], tuple[Array, ...]]) -> None:
        """Run the call and hold it against what it gives."""
        error = getattr(builtins, self.want, None)
        if isinstance(error, type) and issubclass(error, Exception):
            with pytest.raises(error):
                run()
            return
        want = eval(self.want, {"nan": np.nan})
        got = run()
        wanted = want if isinstance(want, tuple) else (want,)
        for one, value in zip(got, wanted, strict=True):
            assert one.shape == np.shape(value), self
            np.testing.assert_allclose(one, value, rtol=1e-6, err_msg=str(self))


def calls() -> Iterator[Call]:
    for text in TEXTS:
        for name, args, want in CALL.findall(text):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                kernel = tc.define(text, name, tune="off")
            assert isinstance(kernel, Kernel)
            given = eval(f"arguments({args})", {"nan": np.nan, "arguments": partial(told, kernel)})
            types = [p.type for p in kernel.definition.params]
            dtypes = [numpy_dtype(BY_NAME.get(t.name, FLOAT32)) for t in types if t is not None]
            arrays = [np.array(a, d) for a, d in zip(given.values, dtypes, strict=True)]
            yield Call(kernel, arrays, dict(given.generics), want)


def told(kernel: Kernel, *args: Any, **named: Any) -> Arguments:
    return kernel.arguments(args, named)


def by_reference(call: Call) -> tuple[Array, ...]:
    kernel = call.kernel.with_shapes(*(a.shape for a in call.args))
    types = dict.fromkeys(type_variables(kernel.definition), FLOAT32)
    return reference(kernel.variant(**types, **call.generics).checked, call.args)


def test_each_call_gives_what_stands_beside_it() -> None:
    made = [*calls()]
    assert len(made) > 40
    for call in made:
        call.runs(lambda call=call: by_reference(call))  # type: ignore[misc]


@pytest.mark.cc
@pytest.mark.wide
def test_each_call_of_a_kernel_gives_the_same() -> None:
    for call in calls():
        call.runs(lambda call=call: results(call.kernel(*call.args, **call.generics)))  # type: ignore[misc]


def test_each_wrong_example_has_the_code_of_its_row() -> None:
    rows = explanations().values()
    assert sum(bool(row.example) for row in rows) > 65
    for row in rows:
        text = row.example
        if text and not text.startswith("def"):
            text = f"{HEAD} {{ {text} }}\n{CALLEE if 'g(' in text else ''}"
        if text:
            assert row.code in codes(text), (row, codes(text))


def test_every_builtin_stands_once_in_the_table_of_cuda() -> None:
    table = LANGUAGE.split("<!-- made: cuda -->")[1].split("<!-- end -->")[0]
    rows = [line.split("|")[1].replace("ours:", "") for line in table.strip().splitlines()[2:]]
    assert sorted(" ".join(rows).split()) == sorted(BUILTINS)


def test_each_link_inside_leads_somewhere() -> None:
    headings = re.findall(r"^#+ (.*)$", LANGUAGE, re.MULTILINE)
    there = {re.sub(r"[^\w -]", "", h).strip().lower().replace(" ", "-") for h in headings}
    assert set(re.findall(r"\]\(#([^)]*)\)", LANGUAGE)) <= there
