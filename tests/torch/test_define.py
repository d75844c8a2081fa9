"""`tcdsl.torch.define`: tensors in and out, autograd included."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest

from tcdsl.autotune.store import transfer

torch = pytest.importorskip("torch")
tct: Any = pytest.importorskip("tcdsl.torch")

pytestmark = [pytest.mark.torch, pytest.mark.cc]

FCRELU = """
def fcrelu(float(B,M) I, float(N,M) W, float(N) b) -> (O) {
  O(b_, n) +=! I(b_, m) * W(n, m)
  O(b_, n)  = fmax(O(b_, n) + b(n), 0)
}"""


def operands() -> list[Any]:
    torch.manual_seed(1)
    return [torch.randn(*s) for s in ((5, 7), (3, 7), (3,))]


def reference(x: Any, w: Any, b: Any) -> Any:
    return torch.relu(x @ w.T + b)


def test_tensors_come_out_where_tensors_go_in() -> None:
    x, w, b = operands()
    y = tct.define(FCRELU)(x, w, b)
    assert type(y) is torch.Tensor
    torch.testing.assert_close(y, reference(x, w, b))


def test_autograd_sees_the_call_and_parameters_learn() -> None:
    x, w, b = operands()
    ours, theirs = ([torch.nn.Parameter(t.clone()) for t in (w, b)] for _ in range(2))
    tct.define(FCRELU)(x, *ours).square().sum().backward()
    reference(x, *theirs).square().sum().backward()
    for a, e in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.grad, e.grad)


def test_configs_that_come_with_a_model_reach_its_operator(tmp_path: Path) -> None:
    from tcdsl.torch.library import runner_of, spelling_of

    given = operands()
    tuned = tct.define(FCRELU, cache=tmp_path / "own.db")
    tuned.autotune(sizes=[{"B": 5, "M": 7, "N": 3}], trials=1, quiet=True)
    wanted = tuned.tuned_config(*given)
    assert wanted is not None
    transfer.export(tmp_path / "own.db", tmp_path / "model.db")
    shipped = tct.define(FCRELU, configs=tmp_path / "model.db", cache=tmp_path / "none.db")
    (tmp_path / "model.db").unlink()
    spelling = spelling_of(shipped)  # as a saved program has it, in another process
    elsewhere = runner_of(spelling._replace(text=spelling.text + " "))
    for kernel in (shipped, elsewhere, pickle.loads(pickle.dumps(shipped)), copy.deepcopy(shipped)):
        assert kernel.tuned_config(*given) == wanted


def test_an_unknown_setting_is_refused_with_the_one_that_was_meant() -> None:
    for define in (tct.define, tct.define_all):
        with pytest.raises(TypeError, match="there is no setting 'tunes'; did you mean 'tune'"):
            define(FCRELU, tunes="off")
    with pytest.raises(TypeError, match="there is no setting 'trainin'; did you mean 'training'"):
        tct.define(FCRELU, trainin=True)


def test_symbolic_traces_of_torch_fx_are_refused_with_what_serves() -> None:
    layer = tct.nn.TC(FCRELU, parameters={"W": (3, 7), "b": 3})
    for _ in range(2):
        with pytest.raises(TypeError, match=r"symbolic_trace follows.*\n  torch.export.export"):
            torch.fx.symbolic_trace(torch.nn.Sequential(layer))
        layer(torch.ones(2, 7))
