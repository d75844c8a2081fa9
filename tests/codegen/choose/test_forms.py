"""The table of forms: what it says before a form is loaded is what the form says."""

import json
import subprocess
import sys
from dataclasses import fields

import pytest

from tcdsl.codegen.choose import arrange, forms
from tcdsl.codegen.forms.base.form import Form
from tcdsl.codegen.machine.cpu import Machine
from tests.codegen.golden_programs import PARTS
from tests.codegen.golden_texts import part_lines


@pytest.mark.parametrize("row", forms.TABLE, ids=lambda row: row.name)
def test_a_row_says_what_its_form_says(row: forms.Row) -> None:
    form = row.load()
    facts = {f.name: getattr(form, f.name) for f in fields(Form) if f.default is False}
    assert row.name == form.name
    assert {name for name, holds in facts.items() if holds} == {*row.facts}
    assert row.has_meaning == (form.meaning is not None)


def test_to_lower_an_addition_loads_its_form_only() -> None:
    code = (
        "import json, sys\n"
        "from tcdsl.codegen.choose import compiler\n"
        "from tcdsl.codegen.machine.spec import Layout, Spec\n"
        "from tcdsl.codegen.program.ssa import program_of\n"
        "from tcdsl.codegen.toolchain.host import detect\n"
        "from tcdsl.grammar.check.definition import check\n"
        "from tcdsl.grammar.text.parser import parse\n"
        "p = program_of(check(parse('def add(float(N) A, float(N) B) -> (C) "
        "{ C(i) = A(i) + B(i) }')))\n"
        "spec, sizes, machine = Spec(None, (Layout(1, True, 0),) * 3, 1), {'N': 9}, detect()\n"
        "config, _ = compiler.generic_choice(p, spec, machine, sizes)\n"
        "compiler.emit_c(compiler.lower_generic(p, spec, config, machine, sizes, 'add'))\n"
        "print(json.dumps([m for m in sys.modules if m.startswith('tcdsl.codegen.forms.')]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    rooms = {name.split(".")[3] for name in json.loads(done.stdout)}
    assert rooms == {"base", "rows"}


@pytest.mark.deep
@pytest.mark.parametrize("part", PARTS)
def test_no_form_takes_a_group_for_which_it_is_not_asked(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = arrange._Able.takes

    def takes(able: arrange._Able, form: arrange.AnyForm) -> bool:
        if isinstance(able.ctx.machine, Machine):
            group = able.ctx.group.statements
            for row in forms.TABLE:
                assert row.may(group) or not row.load().matches(able.ctx), row.name
        return asked(able, form)

    monkeypatch.setattr(arrange._Able, "takes", takes)
    part_lines(part)
