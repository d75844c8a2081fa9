"""Tuning of what a model calls: every kernel, forward and backward; the model stays as it is."""

from __future__ import annotations

import functools
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

torch = pytest.importorskip("torch")
tct: Any = pytest.importorskip("tcdsl.torch")

from tcdsl.calls import record  # noqa: E402
from tcdsl.grammar.text.errors import TCTypeError  # noqa: E402
from tcdsl.layers.tuned import Row, Tuned  # noqa: E402
from tcdsl.layers.tuned import calls_of as calls_of_library  # noqa: E402
from tcdsl.torch.face import LIBRARY  # noqa: E402

calls_of = functools.partial(calls_of_library, LIBRARY)

pytestmark = [pytest.mark.torch, pytest.mark.cc]

SCALE = "def scale(float(B,N) x, float(N) g) -> (y) { y(b, n) = x(b, n) * g(n) }"
MODEL = '''
import torch, tcdsl.torch as tct

class Net(torch.nn.Module):
    def __init__(self, width, bias=True):
        super().__init__()
        self.scale = tct.nn.TC("""{SCALE}""", parameters={"g": width})
        self.head = torch.nn.Linear(width, 2, bias=bias)
    def forward(self, x):
        return self.head(self.scale(x))

def net():
    return Net(4)

class Plain(torch.nn.Linear):
    def __init__(self): super().__init__(4, 2)

class Lookup(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = tct.nn.TC("def look(float(N,D) E, int64(B) i) -> (y) { y(b, d) = E(i(b), d) }",
                               parameters={"E": (5, 3)})
    def forward(self, i):
        return self.table(i)

made = net()
number = 3
'''.replace("{SCALE}", SCALE)


def names(seen: Any) -> list[str]:
    return [one[0].problem.name for one in seen]


# ---- what is called


def test_each_form_is_seen_once_forward_and_backward() -> None:
    layer = tct.nn.TC(SCALE, parameters={"g": 4})
    model = torch.nn.Sequential(layer, layer, torch.nn.Linear(4, 2))
    x = torch.randn(3, 4)
    for _ in range(2):  # the launcher knows these forms by now
        model(x)
        model(x).sum().backward()
    found = names(calls_of(model, [x], {}))
    assert len(found) == len({*found}) or found.count("d_scale B=3 N=4") == 2  # by x too, or not
    assert [n for n in found if not n.startswith("d_")] == ["scale B=3 N=4"]
    assert any(n.startswith("d_scale") for n in found)
    assert not any(n.startswith("d_") for n in names(calls_of(model, [x], {}, training=False)))
    assert not record._records


@pytest.mark.wide
def test_a_compiled_model_is_seen_as_it_was_written() -> None:
    model = torch.nn.Sequential(tct.nn.TC(SCALE, parameters={"g": 4}), torch.nn.Linear(4, 2))
    x = torch.randn(3, 4)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    compiled(x).sum().backward()
    assert names(calls_of(compiled, [x], {})) == names(calls_of(model, [x], {}))


def test_strides_and_outputs_given_are_those_of_the_call() -> None:
    kernel = tct.define(SCALE)
    x, g, out = torch.randn(4, 6).T, torch.ones(4), torch.empty(6, 8)[:, ::2]

    def run() -> None:
        kernel(x, g, out=out)
        kernel(x.contiguous(), g)

    with record.recording() as seen:
        run()
    strided, dense = (one[0].problem.spec.layouts for one in seen.seen.values())
    assert [x.contiguous for x in strided] == [False, True, False]
    assert all(x.contiguous for x in dense)


def test_a_model_is_as_it_was() -> None:
    layer = tct.nn.TC(SCALE, parameters={"g": 4})
    model = torch.nn.Sequential(layer, torch.nn.BatchNorm1d(4), torch.nn.Dropout())
    x = torch.randn(3, 4)
    model(x).sum().backward()
    before = {n: v.clone() for n, v in model.state_dict().items()}
    grads = [p.grad.clone() for p in model.parameters()]
    random = torch.get_rng_state()
    assert {n.split()[0] for n in names(calls_of(model, [x], {}))} == {"scale", "d_scale"}
    assert all(torch.equal(v, before[n]) for n, v in model.state_dict().items())
    assert all(torch.equal(p.grad, g) for p, g in zip(model.parameters(), grads, strict=True))
    assert torch.equal(torch.get_rng_state(), random)


def test_a_layer_tunes_for_training_in_the_middle_of_a_model(tmp_path: Path) -> None:
    layer = tct.nn.TC(SCALE, parameters={"g": 4}, cache=tmp_path / "t.db")
    x = torch.randn(3, 4)
    rows = layer.autotune(x, trials=0, quiet=True).rows
    assert [r.name.split()[0] for r in rows][:1] == ["scale"]
    assert any(r.name.startswith("d_scale") for r in rows)
    assert not x.requires_grad
    assert layer.tc.tuned_config(x, layer.g) == rows[0].config
    wanted = x.clone().requires_grad_()
    layer(wanted).sum().backward()  # what was tuned serves, and is right
    assert torch.equal(wanted.grad, layer.g.expand(3, 4))
    only = layer.autotune(x, training=False, trials=0, quiet=True).rows
    assert [r.name for r in only] == ["scale B=3 N=4"]


def test_without_a_kernel_of_ours_there_is_nothing_to_tune() -> None:
    with pytest.raises(TCTypeError, match=r"Linear calls no kernel of tcdsl\.torch for these"):
        tct.autotune(torch.nn.Linear(4, 2), torch.randn(3, 4))


def test_one_that_fails_does_not_end_the_rest(monkeypatch: Any) -> None:
    from tcdsl.autotune import tuner
    from tcdsl.autotune.store.trial import UntunedError

    asked: list[str] = []

    def tune(problems: Any, **options: Any) -> Any:
        asked.append(problems[0].name)
        if len(asked) == 1:
            raise UntunedError("no compiler\nsecond line")
        return []  # the user stopped it

    monkeypatch.setattr(tuner, "tune", tune)
    tuned = tct.nn.TC(SCALE, parameters={"g": 4}).autotune(torch.randn(3, 4), quiet=True)
    assert len(asked) == 2
    assert [r.why for r in tuned.rows] == ["no compiler"]
    assert not tuned.is_complete
    lines = str(tuned).splitlines()
    assert lines[1].endswith("not tuned: no compiler")
    assert lines[-1].startswith("stopped: what was found is kept")


def test_the_table_has_a_line_for_each_kernel() -> None:
    from tcdsl.autotune.store.key import ProblemKey
    from tcdsl.codegen.machine.config import Config

    key = ProblemKey("a", ("float32",), "c", (1,), "cpu", 1, "gcc", "1")
    rows = [Row("f B=1", key, Config(), 2e3, 1e3), Row("d_f B=100", key, Config(), 1.5e6, 1e6)]
    assert str(Tuned(rows)).splitlines() == [
        "                untuned        tuned",
        "f B=1           2.00 us      1.00 us  2.00x",
        "d_f B=100    1500.00 us   1000.00 us  1.50x",
    ]


def test_rows_of_a_forward_pass_in_training_and_without_it_are_told_apart() -> None:
    from tcdsl.layers.tuned import _label

    text = "def soft(float(N) x) -> (y) { z +=! exp(x(i)) y(i) = x(i) * x(i) * z }"
    soft = tct.define(text)
    x = torch.randn(4, requires_grad=True)
    found = [_label(one[0].problem) for one in calls_of(soft, [x], {})]
    assert found == ["soft N=4", "soft_forward N=4", "d_soft N=4"]


# ---- the command


@pytest.fixture
def home(tmp_path: Path, monkeypatch: Any) -> Path:
    (tmp_path / "nets_of_test.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p])
    monkeypatch.delitem(sys.modules, "nets_of_test", raising=False)
    return tmp_path


def tcdsl(*args: object) -> Result:
    from tcdsl.cli import main

    return CliRunner().invoke(main, ["autotune", *map(str, args)])


@pytest.mark.parametrize(
    "target",
    [
        ("Net", "--arg", "width=4", "--arg", "bias=False"),
        pytest.param(("net",), marks=pytest.mark.wide),
        pytest.param(("made",), marks=pytest.mark.wide),
    ],
)
def test_a_class_a_function_or_a_module_is_tuned(home: Path, target: tuple[str, ...]) -> None:
    name, *rest = target
    options = ("--trials", 0, "--quiet", "--cache", home / "t.db", "--json")
    done = tcdsl(f"nets_of_test:{name}", "--input", "3,4", *rest, *options)
    assert done.exit_code == 0, done.output
    rows = json.loads(done.output)
    assert [r["name"].split()[0] for r in rows] == ["scale", "d_scale"]
    assert all(r["config"] for r in rows)


@pytest.mark.wide
def test_integers_types_and_inference(home: Path) -> None:
    options = ("--inference", "--trials", 0, "--quiet", "--cache", home / "t.db")
    done = tcdsl("nets_of_test:Lookup", "--input", "7:int64:5", *options)
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[1].startswith("look ")
    assert len(done.output.splitlines()) == 2
    done = tcdsl("nets_of_test:Net", "--input", "3,4", "--arg", "width=4", "--dtype", "float16")
    assert done.exit_code == 2
    assert "g is float32 in the text, so it cannot become torch.float16" in done.output


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        ("nets_of_test:Net", 2, "needs inputs: --input 32,3,224,224"),
        ("nets_of_test:Net --input 3,4", 2, "missing a required argument: 'width'"),
        ("nets_of_test:Net --input 3,4 --arg widht=4", 2, "give arguments as --arg KEY=VALUE"),
        ("nets_of_test:Net --input 3,4 --arg 4", 2, "expected KEY=VALUE, got '4'"),
        ("nets_of_test:Nets --input 3,4", 2, "'nets_of_test' has no 'Nets'; did you mean 'Net'?"),
        ("nets_of_test:number --input 3", 2, "is a int; expected a class"),
        ("nets_of_test:torch.nn.init.ones_ --input 3", 2, "missing a required argument"),
        ("nets_of_test:made --input 3 --arg a=1", 2, "is a module already"),
        ("nets_of_test:Plain --input 3,4", 1, "calls no kernel of tcdsl.torch"),
        ("nets_of_test:Plain --input 3x4", 2, "write the shape as 32,3,224,224"),
        ("nets_of_test:Plain --input 3,4:float31", 2, "'float31' is no type; did you mean 'float"),
        ("nets_of_test:Plain --input 3:float:4", 2, "has a bound, which is for integers"),
        ("nets_of_test:Plain --input 3 --sizes N=3", 2, "it takes --input, not --sizes"),
        ("nets_of_tset:Net --input 3", 2, "there is no module 'nets_of_tset', neither in"),
        ("nets_of_test.py:Net --input 3", 2, "write nets_of_test:..."),
        ("missing.tc --sizes N=3", 2, "does not exist"),
    ],
)
def test_what_is_wrong_is_said(home: Path, args: str, code: int, message: str) -> None:
    done = tcdsl(*args.split())
    assert message in done.output
    assert done.exit_code == code


def test_a_text_still_needs_its_sizes(home: Path) -> None:
    (home / "s.tc").write_text(SCALE)
    assert "Missing option '--sizes'" in tcdsl("s.tc").output
    assert "it takes --sizes" in tcdsl("s.tc", "--sizes", "B=1,N=1", "--input", "3").output


def test_a_class_after_a_dot_is_told_how_it_is_named(home: Path) -> None:
    done = tcdsl("nets_of_test.Net", "--input", "2,4")
    assert done.exit_code == 2
    assert "does not exist.\n  a class is named nets_of_test:Net" in done.output
    done = tcdsl("net.tc")
    assert "a class is named" not in done.output


def test_without_torch_the_command_says_how_to_get_it(home: Path, monkeypatch: Any) -> None:
    for name in [n for n in sys.modules if n.startswith("tcdsl.torch")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    done = tcdsl("nets_of_test:Net", "--input", "3,4")
    assert done.exit_code == 1
    assert 'pip install "tcdsl[torch]"' in done.output


def test_what_the_users_code_wants_and_has_not_is_pythons_to_say(home: Path) -> None:
    (home / "wants_of_test.py").write_text("import not_there_of_test\n")
    done = tcdsl("wants_of_test:Net", "--input", "3")
    assert isinstance(done.exception, ModuleNotFoundError)
    assert "not_there_of_test" in str(done.exception)
