"""Kernels under torch.export: programs that are saved, loaded elsewhere, and run."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.torch.texts import CONV, FCRELU, FIRST

torch = pytest.importorskip("torch")
tct: Any = pytest.importorskip("tcdsl.torch")

pytestmark = [pytest.mark.torch, pytest.mark.cc]

ROOT = Path(__file__).parents[2]
Dim = torch.export.Dim


class Of(torch.nn.Module):  # type: ignore[misc,name-defined]
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def exported(module: Any, args: tuple[Any, ...], dims: Any, *, strict: bool = False) -> Any:
    shapes = (dims,) if isinstance(module, Of) else dims
    return torch.export.export(module, args, dynamic_shapes=shapes, strict=strict)


def layer() -> Any:
    torch.manual_seed(1)
    ours = tct.nn.TC(FCRELU, parameters={"W": (5, 7), "b": (5,)})
    return torch.nn.Sequential(torch.nn.Linear(7, 7), ours, torch.nn.Linear(5, 2))


@pytest.mark.parametrize("strict", [False, pytest.param(True, marks=pytest.mark.wide)])
def test_a_saved_program_runs_for_other_sizes(strict: bool, tmp_path: Path) -> None:
    model = layer()
    program = exported(model, (torch.randn(3, 7),), ({0: Dim("batch")},), strict=strict)
    calls = [n for n in program.graph.nodes if n.target is torch.ops.tcdsl.call.default]
    assert len(calls) == 1
    torch.export.save(program, tmp_path / "model.pt2")
    loaded = torch.export.load(tmp_path / "model.pt2")
    for batch in (1, 3, 11):
        x = torch.randn(batch, 7)
        for p in (program, copy.deepcopy(program), loaded):
            torch.testing.assert_close(p.module()(x), model(x))


@pytest.mark.wide
def test_a_saved_program_runs_in_a_process_that_has_only_imported_us(tmp_path: Path) -> None:
    conv, first = tct.define(CONV), tct.define(FIRST, threads=1)
    model = Of(lambda x, w, y: (conv(x, w, S=2), first(x[0, 0, 0], 2.5, y.shape[0])))
    given = torch.randn(2, 3, 9, 8), torch.randn(4, 3, 3, 2), torch.randn(5)
    dims = ({0: Dim("n")}, None, {0: Dim("m", max=8)})
    program = exported(model, given, dims, strict=True)
    torch.export.save(program, tmp_path / "model.pt2")
    given = torch.randn(3, 3, 9, 8), torch.randn(4, 3, 3, 2), torch.randn(7)
    torch.save((given, model(*given)), tmp_path / "data.pt")
    code = (
        "import torch, tcdsl.torch\n"
        f"given, expected = torch.load({str(tmp_path / 'data.pt')!r})\n"
        f"program = torch.export.load({str(tmp_path / 'model.pt2')!r}).module()\n"
        "for ours, theirs in zip(program(*given), expected, strict=True):\n"
        "    assert torch.equal(ours, theirs)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


@pytest.mark.deep
def test_what_the_text_asks_of_sizes_torch_export_asks_of_the_program() -> None:
    add = tct.define("def add(float(N) x, float(N) y) -> (z) { z(i) = x(i) + y(i) }")
    given = torch.ones(4), torch.ones(4)
    with pytest.raises(torch._dynamo.exc.UserError, match="m = n"):
        exported(Of(add), given, ({0: Dim("n")}, {0: Dim("m")}))
    program = exported(Of(add), given, ({0: Dim("n")}, {0: Dim("n")}))
    with pytest.raises((RuntimeError, AssertionError)):
        program.module()(torch.ones(4), torch.ones(5))


@pytest.mark.wide
def test_sizes_and_numbers_from_data_are_asked_for_or_refused() -> None:
    add = tct.define("def add(float(N) x, float(N) y) -> (z) { z(i) = x(i) + y(i) }")
    add_any = tct.define("def any(float(...) x, float(...) y) -> (z) { z(...) = x(...) + y(...) }")
    first = tct.define(FIRST)
    x = torch.arange(-3.0, 4)

    def positive(kernel: Any, *checks: Callable[[Any, Any], Any]) -> Any:
        def f(x: Any) -> Any:
            a, b = x[x > 0], x[x < 0]
            for check in checks:
                torch._check(check(a.shape[0], b.shape[0]))
            return kernel(a, b)

        return exported(Of(f), (x,), (None,))

    with pytest.raises(ValueError, match="a size comes from data"):
        positive(add)
    with pytest.raises(ValueError, match="a size comes from data"):
        positive(add_any)
    equal, several = (lambda a, b: a == b), [lambda a, b: a != 1, lambda a, b: b != 1]
    assert positive(add, equal).module()(x).tolist() == [-2.0, 0.0, 2.0]
    assert positive(add_any, equal, *several).module()(x).tolist() == [-2.0, 0.0, 2.0]

    def some(x: Any, n: Any) -> Any:
        count = n.item()
        torch._check(count >= 0)
        torch._check(count <= x.shape[0])
        return first(x, 2.0, count)

    program = exported(Of(some), (x, torch.tensor(3)), ({0: Dim("n")}, None))
    for n in (0, 2, 5):
        assert program.module()(x, torch.tensor(n)).tolist() == (2 * x[:n]).tolist()
    n = torch.tensor(3, dtype=torch.int32)
    with pytest.raises(TypeError, match="value of n is needed"):
        exported(Of(lambda x, n: first(x, 2.0, n)), (x, n), (None, None))
