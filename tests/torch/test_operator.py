"""The operator `tcdsl::call`: modes, fake and meta tensors, tracers, autograd and torch.func."""

from __future__ import annotations

import gc
import io
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import tcdsl as tc
from tcdsl.grammar.text.errors import TCError, TCTypeError
from tests.tiers import sampled
from tests.torch.texts import CONV, FCRELU, FIRST, NOISE, SOFTMAX

torch = pytest.importorskip("torch")
tct: Any = pytest.importorskip("tcdsl.torch")

from tcdsl.torch import library  # noqa: E402

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.torch, pytest.mark.cc]


def operands() -> list[Any]:
    torch.manual_seed(1)
    return [torch.randn(*s) for s in ((5, 7), (3, 7), (3,))]


def call(kernel: Any, *tensors: Any, **numbers: Any) -> list[Any]:
    """Call the operator itself, as a loaded program does."""
    found: list[Any] = torch.ops.tcdsl.call(*kernel.spelled[0], "", [*tensors], **numbers)
    return found


class Log(torch.utils._python_dispatch.TorchDispatchMode):  # type: ignore[misc,name-defined]
    """Write down the operators that run."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


# ---- who sees the call


def test_a_kernel_of_tcdsl_define_is_no_constant_of_a_traced_program() -> None:
    text = "def twice(float(N) x) -> (y) { y(i) = 2 * x(i) }"
    plain, seen = tc.define(text), tct.define(text)
    x, z = torch.randn(5), torch.randn(5)
    plain(x)
    make_fx: Any = torch.fx.experimental.proxy_tensor.make_fx
    jit_trace: Any = torch.jit.trace
    traces: dict[str, Any] = {
        "torch.jit.trace": lambda f: jit_trace(f, (x,)),
        "make_fx": lambda f: make_fx(f)(x),
    }
    for name, trace in traces.items():
        with pytest.raises(TCTypeError) as caught:
            trace(lambda x: plain(x) + 1)
        assert str(caught.value) == (
            f"argument 'x' is traced by {name}, which would not see this call: what it gives now "
            "would be a constant of the program\n"
            "  define the kernel by tcdsl.torch.define, whose calls are traced"
        )
        torch.testing.assert_close(trace(lambda x: seen(x) + 1)(z), 2 * z + 1)
    torch.testing.assert_close(plain(x), 2 * x)


def test_a_mode_sees_the_call_also_of_a_form_seen_before() -> None:
    fcrelu = tct.define(FCRELU)
    given = operands()
    expected = fcrelu(*given)
    for _ in range(2):
        with Log() as log:
            found = fcrelu(*given)
        assert log.seen == ["tcdsl.call.default"]
        assert torch.equal(found, expected)
    with Log() as log:
        fcrelu(*given, out=expected)
    assert log.seen == ["tcdsl.call_out.default"]


def test_a_mode_sees_the_way_back() -> None:
    fcrelu = tct.define(FCRELU)
    given = [t.requires_grad_() for t in operands()]
    with Log() as log:
        fcrelu(*given).sum().backward()
    assert log.seen.count("tcdsl.call.default") == 2


def test_fake_and_meta_tensors_give_shapes_without_memory() -> None:
    conv = tct.define(CONV)
    x, w = torch.empty(2, 3, 9, 8, device="meta"), torch.empty(4, 3, 3, 2, device="meta")
    y = conv(x, w, S=2)
    assert (y.shape, y.device.type, y.dtype) == ((2, 4, 4, 4), "meta", torch.float32)
    with torch._subclasses.FakeTensorMode() as mode:
        fake = conv(torch.empty(2, 3, 9, 8), torch.empty(4, 3, 3, 2))
    assert fake.shape == (2, 4, 7, 7)
    assert fake.fake_mode is mode
    again = conv(mode.from_tensor(torch.empty(2, 3, 9, 8)), fake[:, :3, :2, :2])
    assert again.shape == (2, 2, 8, 7)


def test_what_a_call_refuses_is_refused_of_fake_tensors() -> None:
    fcrelu, first = tct.define(FCRELU), tct.define(FIRST)
    x, w, b = (t.to("meta") for t in operands())
    with pytest.raises(Exception, match="expected W of shape") as shape:
        fcrelu(x, w[:, :6], b)
    assert isinstance(shape.value, ValueError)
    with pytest.raises(TypeError, match="expected b of type float32, got float64"):
        fcrelu(x, w, b.double())
    with pytest.raises(TypeError, match="value of n is needed"):
        first(b, 2.0, torch.tensor(2, device="meta", dtype=torch.int32))
    with pytest.raises(TypeError, match="expected out 'O' of type"):
        fcrelu(x, w, b, out=torch.empty(5, 3, device="meta", dtype=torch.float64))
    with pytest.raises(ValueError, match="expected out 'O' of shape"):
        fcrelu(x, w, b, out=torch.empty(3, 5, device="meta"))


def test_tensors_with_and_without_memory_do_not_mix() -> None:
    """The kernel of fakes would serve, and hand out memory that nobody wrote."""
    fcrelu, first = tct.define(FCRELU), tct.define(FIRST)
    x, w, b = operands()
    empty = torch.empty(3, 7, device="meta")
    message = (
        "fcrelu: expected all arguments on one device, got I on cpu and W on meta\n"
        "  give W values: a meta tensor has none"
    )
    for given in ((x, empty, b), (x, empty.requires_grad_(), b)):
        with pytest.raises(TypeError) as mixed:
            fcrelu(*given)
        assert str(mixed.value) == message
    with pytest.raises(TypeError, match="got I on meta and W on cpu"):
        fcrelu(x.to("meta"), w, b)
    with pytest.raises(TypeError, match="give I values"), torch.no_grad():
        fcrelu(x.to("meta"), w, b, out=torch.empty(5, 3))
    with pytest.raises(TypeError, match="got I on cpu and O on meta"):
        fcrelu(x, w, b, out=torch.empty(5, 3, device="meta"))
    with pytest.raises(TypeError, match="give a values"):
        first(b, torch.tensor(2.0, device="meta"), 2)
    meta = first(b.to("meta"), torch.tensor(2.0), 2)
    assert meta.device.type == "meta"


def test_meta_tensors_are_recorded_after_others_were() -> None:
    fcrelu = tct.define(FCRELU)
    fcrelu(*operands())
    given = [t.to("meta").requires_grad_() for t in operands()]
    y = fcrelu(*given)
    assert (y.shape, y.device.type) == ((5, 3), "meta")
    assert [g.shape for g in torch.autograd.grad(y.sum(), given)] == [t.shape for t in given]


@pytest.mark.wide
def test_sizes_of_results_are_expressions_of_symbols() -> None:
    conv = tct.define(CONV)
    given = torch.randn(2, 3, 9, 8), torch.randn(4, 3, 3, 2)
    traced = torch.fx.experimental.proxy_tensor.make_fx(conv, tracing_mode="symbolic")(*given)
    assert [n.target for n in traced.graph.nodes if "tcdsl" in str(n.target)] == [
        torch.ops.tcdsl.call.default
    ]
    result = next(n for n in traced.graph.nodes if "getitem" in n.name).meta["val"]
    assert not any(isinstance(n, int) for n in result.shape)
    for x, w in (given, (torch.randn(1, 2, 5, 13), torch.randn(3, 2, 2, 5))):
        assert torch.equal(traced(x, w), conv(x, w))


@pytest.mark.wide
def test_torch_jit_trace_records_the_operator_and_saves_it() -> None:
    fcrelu = tct.define(FCRELU)
    given = operands()
    fcrelu(*given)  # a form that the launcher knows
    traced = torch.jit.trace(lambda *a: fcrelu(*a) * 2, given)
    file = io.BytesIO()
    torch.jit.save(traced, file)
    file.seek(0)
    x, w, b = torch.randn(11, 7), *given[1:]
    for program in (traced, torch.jit.load(file)):
        assert torch.equal(program(x, w, b), fcrelu(x, w, b) * 2)


# ---- arguments


def test_numbers_of_every_kind_pass_through_the_operator() -> None:
    first, noise = tct.define(FIRST), tct.define(NOISE)
    x = torch.randn(6)
    for n, a in ((3, 2), (0, 0.5), (True, torch.tensor(3.0))):
        with Log() as log:
            found = first(x, a, n)
        assert log.seen[0] == "tcdsl.call.default"
        assert torch.equal(found, first(x, a, n))
    for seed in (0, 2**63 - 1, 2**63, 2**64 - 1):
        with Log():
            found = noise(x, seed)
        assert torch.equal(found, noise(x, seed))
    with Log(), pytest.raises(TypeError, match="arrays are tensors"):
        first(x, [1.0], 2)


@pytest.mark.wide
def test_settings_and_generics_travel_in_strings() -> None:
    kernel = tct.define(CONV, threads=1, tune="off", deterministic=True, cache="own.db")
    assert kernel.spelled[0][1:] == (
        "conv",
        "",
        '{"deterministic": true, "threads": 1, "tune": "off"}',
    )
    spelling = tct.library.Spelling(*kernel.spelled[0])
    x, w = torch.randn(2, 3, 9, 8), torch.randn(4, 3, 3, 2)
    expected = kernel(x, w, S=2)
    del kernel
    gc.collect()
    tct.library._runners.clear()
    (found,) = torch.ops.tcdsl.call(*spelling, "S=2", [x, w])
    runner = tct.library.runner_of(spelling)
    assert torch.equal(found, expected)
    assert (runner.session.settings.threads, runner.session.settings.tune) == (1, "off")
    with pytest.raises(TypeError, match="'speed', which this version of tcdsl does not know"):
        torch.ops.tcdsl.call(spelling.text, "conv", "", '{"speed": 2}', "", [x, w])


def test_calls_with_generics_of_known_forms_do_not_enter_python() -> None:
    kernel = tct.define("def every<S=2, T>(T(N) x) -> (y) { y(i) = x(S * i) }", tune="off")
    runner = tct.library.runner_of(tct.library.Spelling(*kernel.spelled[0]))
    x = torch.arange(6.0)
    for _ in range(2):
        torch.ops.tcdsl.call(*kernel.spelled[0], " S=3 T=float32", [x])
    calls = runner.calls
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner._host, "call_of", None)  # what Python's part would call
        (found,) = torch.ops.tcdsl.call(*kernel.spelled[0], " S=3 T=float32", [x])
    assert (found.tolist(), runner.calls) == ([0, 3], calls + 1)


def test_the_strings_of_a_call_are_told_apart_once() -> None:
    fcrelu = tct.define(FCRELU + "# told apart", tune="off")
    x, w, b = operands()

    def entered(*given: Any) -> list[str]:
        for _ in range(2):
            call(fcrelu, *given)
        found: list[str] = []

        def note(frame: Any, event: str, _: object) -> None:
            if event == "call":
                found.append(frame.f_code.co_name)

        sys.setprofile(note)
        try:
            torch.ops.tcdsl.call.default(*fcrelu.spelled[0], "", [*given])
        finally:
            sys.setprofile(None)
        return found

    plain = ["__call__", "_call", "given", "has_tangents", "run", "values"]
    assert sorted(f for f in entered(x, w, b) if f != "<lambda>") == plain
    recorded = entered(x, w.requires_grad_(), b)
    assert len(recorded) < 25
    assert not {"generics_of", "_merged", "bind", "runner_of", "of_bound"} & {*recorded}


@pytest.mark.deep
def test_tables_of_derivatives_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    from tcdsl.derived import with_gradient
    from tcdsl.torch import derivatives

    monkeypatch.setattr(with_gradient, "_MOST_KNOWN", 4)
    monkeypatch.setattr(derivatives, "_MAX_FORMS", 4)
    monkeypatch.setattr(library, "_MOST_CALLEES", 4)
    kernel = tct.define("def by<S>(float(N) x) -> (y) { y(i) = S * x(i) * x(i) }", tune="off")
    runner = library.runner_of(library.Spelling(*kernel.spelled[0]))
    x = torch.ones(3, requires_grad=True)
    for _ in range(2):
        for s in range(1, 7):
            for y in (kernel(x, S=s), torch.ops.tcdsl.call(*kernel.spelled[0], f"S={s}", [x])[0]):
                (gradient,) = torch.autograd.grad(y.sum(), x)
                assert gradient.tolist() == [2 * s] * 3
    for of in (kernel, runner):
        tables = of.derivatives._known, of.derivatives._of_made
        assert all(len(t) <= 4 for t in (*tables, of.derivatives._with_gradient._known))
    assert len(runner.callees) <= 4


def test_kernels_of_a_text_share_what_is_compiled_with_the_operator() -> None:
    fcrelu = tct.define(FCRELU + "# shared")
    given = operands()
    fcrelu(*given)
    call(fcrelu, *given)
    spelling = tct.library.Spelling(*fcrelu.spelled[0])
    runner = tct.library.runner_of(spelling)
    assert runner.session is fcrelu.session
    other = tct.define(FCRELU + "# shared")
    other._forget_choices(other.variant())  # as tuning does
    assert tct.library.runner_of(spelling).session is other.session


# ---- derivatives


@pytest.mark.wide
def test_the_operator_has_derivatives_of_any_order() -> None:
    softmax = tct.define(SOFTMAX)
    x = torch.randn(5, dtype=torch.float64, requires_grad=True)
    a = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)

    def of(x: Any, a: Any) -> Any:
        return call(softmax, x, a)[0]

    def at(x: Any) -> Any:
        return call(softmax, x, kinds="tf", floats=[0.5])[0]

    for f, given in ((of, (x, a)), (at, (x,))):
        assert torch.autograd.gradcheck(f, given)
        assert torch.autograd.gradgradcheck(f, given)
    assert not call(softmax, x, a)[1].requires_grad


def ours(x: Any, a: Any = 0.5) -> Any:
    if isinstance(a, float):
        return call(_softmax(), x, kinds="tf", floats=[a])[0].square().sum()
    return call(_softmax(), x, a)[0].square().sum()


def theirs(x: Any, a: Any = 0.5) -> Any:
    return torch.softmax(a * x, 0).square().sum()


@cache
def _softmax() -> Any:
    return tct.define(SOFTMAX)


def _again(f: Any) -> Any:
    return torch.func.grad(lambda *a: torch.func.grad(f)(*a).square().sum())


def _push(f: Any) -> Any:
    return lambda x: torch.func.jvp(f, (x,), (x.cos(),))


TRANSFORMS: dict[str, Any] = {
    "grad": torch.func.grad,
    "grad of grad": _again,
    "grad of grad of grad": lambda f: _again(lambda x: torch.func.grad(f)(x).square().sum()),
    "vmap": lambda f: lambda x: torch.vmap(f)(torch.stack([x, 2 * x, x.sin()])),
    "vmap of grad": lambda f: lambda x: torch.vmap(torch.func.grad(f))(torch.stack([x, 2 * x])),
    "grad of vmap": lambda f: torch.func.grad(
        lambda x: torch.vmap(f, in_dims=1)(torch.stack([x, 2 * x], 1)).square().sum()
    ),
    "jvp": _push,
    "jvp of grad": lambda f: _push(torch.func.grad(f)),
    "grad of jvp": lambda f: torch.func.grad(lambda x: _push(f)(x)[1]),
    "jvp of jvp": lambda f: _push(lambda x: _push(f)(x)[1]),
    "jvp of vmap": lambda f: _push(lambda x: torch.vmap(f)(torch.stack([x, 2 * x]))),
    "hessian": torch.func.hessian,
    "jacrev": torch.func.jacrev,
    "jacfwd": torch.func.jacfwd,
}


OFTEN = ("grad of grad", "vmap of grad", "jvp of grad", "hessian", "jacfwd")


@pytest.mark.parametrize(
    "name",
    ["vmap", *(pytest.param(n, marks=pytest.mark.wide if n in OFTEN else pytest.mark.deep)
               for n in TRANSFORMS if n != "vmap")],
)  # fmt: skip
def test_functions_of_torch_func_are_right_over_the_operator(name: str) -> None:
    transform = TRANSFORMS[name]
    torch.manual_seed(1)
    x = torch.randn(5, dtype=torch.float64)
    torch.testing.assert_close(transform(ours)(x), transform(theirs)(x))


def test_what_the_operator_has_no_rule_for_raises() -> None:
    noise = tct.define(NOISE)
    text = """
def twice(double(N) x) -> (y) { y(i) = 2 * x(i) }
def back(double(N) x, double(N) d_y) -> (d_x) { d_x(i) = 2 * d_y(i) }"""
    by_hand = tct.define(text, "twice", backward="back")
    x = torch.randn(2, 3)
    with pytest.raises(TypeError, match="way back is written by hand"):
        torch.func.jvp(lambda x: call(by_hand, x)[0], (x[0].double(),), (x[0].double(),))

    def noisy(x: Any) -> Any:
        return call(noise, x, kinds="ti", integers=[7])[0]

    with pytest.raises(TypeError, match="randomness='error'"):
        torch.vmap(noisy)(x)
    same, other = (torch.vmap(noisy, randomness=r)(x) - x for r in ("same", "different"))
    torch.testing.assert_close(same[0], same[1])
    assert not torch.allclose(other[0], other[1])


NOISY = "def noisy(double(N) x, uint64 seed) -> (y) { y(i) = rand(seed, i) * x(i) * x(i) }"


@sampled("flag", ["error", "same", "different"], keep=1)
def test_a_batch_of_directions_meets_the_numbers_of_the_one_pass(flag: str) -> None:
    noisy = tct.define(NOISY)
    x = torch.ones(5, dtype=torch.float64)
    y = noisy(x, 7)

    def f(x: Any) -> Any:
        return call(noisy, x, kinds="ti", integers=[7])[0]

    slopes = torch.vmap(lambda d: torch.func.jvp(f, (x,), (d,))[1], randomness=flag)(
        torch.eye(5).double()
    )
    torch.testing.assert_close(slopes, torch.diag(2 * y))
    (rows,) = torch.vmap(torch.func.vjp(f, x)[1], randomness=flag)(torch.eye(5).double())
    torch.testing.assert_close(rows, torch.diag(2 * y))
    # texts that nobody here has a kernel of, as in a process that loads a program
    for made in (tc.grad(noisy), tc.jvp(noisy)):
        text, *rest = library.spelling_of(made)
        over = torch.vmap(
            lambda d, text=text, rest=rest: torch.ops.tcdsl.call(
                f"# loaded\n{text}", *rest, "", [x, d], "tit", [7]
            )[-1],
            randomness=flag,
        )
        torch.testing.assert_close(over(torch.eye(5).double()), torch.diag(2 * y))


def test_a_seed_for_each_element_is_no_random_number_of_vmap() -> None:
    noisy = tct.define(NOISY)
    x, seeds = torch.ones(3, 5, dtype=torch.float64), torch.arange(3).to(torch.uint64)
    found = torch.vmap(lambda x, s: call(noisy, x, s)[0])(x, seeds)
    torch.testing.assert_close(found, torch.stack([noisy(x[0], s) for s in range(3)]))


@pytest.mark.deep
def test_a_loaded_derivative_over_directions_meets_the_numbers_of_its_pass(tmp_path: Path) -> None:
    noisy = tct.define(NOISY)
    x = torch.ones(5, dtype=torch.float64)
    derivatives = [library.spelling_of(made) for made in (tc.grad(noisy), tc.jvp(noisy))]

    class Slopes(torch.nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, x: Any, d: Any) -> Any:
            calls = [torch.ops.tcdsl.call(*s, "", [x, d], "tit", [7]) for s in derivatives]
            return [c[-1] for c in calls]

    torch.export.save(torch.export.export(Slopes(), (x, 2 * x)), tmp_path / "slopes.pt2")
    torch.save((x, torch.diag(2 * noisy(x, 7))), tmp_path / "data.pt")
    code = (
        "import torch, tcdsl.torch\n"
        f"program = torch.export.load({str(tmp_path / 'slopes.pt2')!r}).module()\n"
        f"x, expected = torch.load({str(tmp_path / 'data.pt')!r})\n"
        "for flag in ('error', 'same', 'different'):\n"
        "    over = torch.vmap(program, (None, 0), randomness=flag)\n"
        "    for found in over(x, torch.eye(5).double()):\n"
        "        torch.testing.assert_close(found, expected)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_an_integer_in_a_tensor_bounds_a_range_of_a_recorded_call() -> None:
    first = tct.define(FIRST)
    x = torch.randn(5, requires_grad=True)
    for n in (2, 4, 2):
        count = torch.tensor(n, dtype=torch.int32)
        (y,) = call(first, x, count, kinds="tft", floats=[2.0])
        (gradient,) = torch.autograd.grad(y.sum(), x)
        assert gradient.tolist() == [2.0] * n + [0.0] * (5 - n)


def test_a_number_in_a_tensor_of_another_type_gets_a_gradient_of_that_type() -> None:
    x = torch.randn(5, dtype=torch.float64, requires_grad=True)
    a = torch.tensor(0.5, requires_grad=True)
    ours(x, a).backward()
    assert (x.grad.dtype, a.grad.dtype) == (torch.float64, torch.float32)


def test_an_output_that_is_given_is_not_recorded() -> None:
    fcrelu = tct.define(FCRELU)
    x, w, b = operands()
    out = torch.empty(5, 3)
    given = (*fcrelu.spelled[0], "", [x, w.requires_grad_(), b], [out])
    with pytest.raises(TypeError, match="out= does not support automatic differentiation"):
        torch.ops.tcdsl.call_out(*given)
    with torch.no_grad():
        torch.ops.tcdsl.call_out(*given)
        assert torch.equal(out, fcrelu(x, w, b))


def checked(kernel: Any, *tensors: Any, grad: bool = False, **numbers: Any) -> None:
    given = [t.detach().requires_grad_(grad) for t in tensors]
    args = (*kernel.spelled[0], "", given)
    torch.library.opcheck(torch.ops.tcdsl.call.default, args, numbers)


@pytest.mark.wide
def test_opcheck_passes() -> None:
    checked(tct.define(FCRELU), *operands(), grad=True)


@pytest.mark.deep
@pytest.mark.parametrize("grad", [False, True])
def test_opcheck_passes_whatever_the_arguments(grad: bool) -> None:
    fcrelu, softmax, first = (tct.define(t) for t in (FCRELU, SOFTMAX, FIRST))
    x, w, b = operands()
    checked(fcrelu, x.T.contiguous().T, w[:1].expand(3, 7), torch.randn(6)[::2], grad=grad)
    checked(fcrelu, x[:0], w, b, grad=grad)
    checked(softmax, x[0].double(), kinds="tf", floats=[0.5], grad=grad)
    checked(first, b, kinds="tfi", floats=[0.5], integers=[2], grad=grad)
    if not grad:
        given = (*fcrelu.spelled[0], "", [x, w, b], [torch.empty(5, 3)])
        torch.library.opcheck(torch.ops.tcdsl.call_out.default, given)


@pytest.mark.wide
def test_a_way_back_by_hand_is_the_one_that_the_operator_takes() -> None:
    text = """
def scale<S=2>(double(N) x) -> (y) { y(i) = S * x(i) }
def back<S=2>(double(N) x, double(N) d_y) -> (d_x) { d_x(i) = 10 * S * d_y(i) }
def short(double(N) x, double(M) d_y) -> (d_x) { d_x(i) = d_y(2 * i) }"""
    derived, by_hand = tct.define(text, "scale"), tct.define(text, "scale", backward="back")
    assert derived.spelled != by_hand.spelled
    x = torch.ones(3, dtype=torch.float64, requires_grad=True)
    for kernel, slope in ((derived, 3.0), (by_hand, 30.0)):
        (y,) = torch.ops.tcdsl.call(*kernel.spelled[0], "S=3", [x])
        assert y.tolist() == [3, 3, 3]
        (gradient,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        assert gradient.tolist() == [slope] * 3
        assert torch.autograd.gradcheck(lambda d, k=kernel: _pulled(k, x, d), (x * 2,))
    wrong = tct.define(text, "scale", backward="short")
    with pytest.raises(ValueError, match=r"expected d_x of the shape of x, \(3,\)"):
        call(wrong, x)[0].sum().backward()


def _pulled(kernel: Any, x: Any, d: Any) -> Any:
    return torch.autograd.grad(call(kernel, x)[0], x, d, create_graph=True)[0]


# ---- calls that lie


@pytest.mark.parametrize("spoiled", ["kinds", "count", "name", "backward", "generics", "file"])
def test_a_changed_program_is_refused_by_its_place(spoiled: str) -> None:
    text = "def scaled<S=1>(float(N) x, float a) -> (y) { y(i) = x(S * i) * a }"
    spelling = {"text": text, "name": "scaled", "backward": "", "settings": ""}
    generics, kinds, floats, says = "S=1", "tf", [2.0], ""
    match spoiled:
        case "kinds":
            kinds, says = "tz", "kinds is 'tz'"
        case "count":
            floats, says = [], "1 tensors, 0 integers and 0 floats"
        case "name":
            spelling["name"], says = "none", "no definition 'none' in the text"
        case "backward":
            spelling["backward"], says = "none", "no definition 'none' in the text"
        case "generics":
            generics, says = "S=" + "9" * 5000, "integer for generic 'S'"
        case "file":
            spelling["settings"], says = '{"cache": "/some/file"}', "name the file /some/file"
    operator = torch.ops.tcdsl.call.default
    for x in (torch.ones(3), torch.ones(3, requires_grad=True), torch.ones(3, device="meta")):
        with pytest.raises(TCError, match=says):
            operator(*spelling.values(), generics, [x], kinds, None, floats)
    with pytest.raises(TCError, match=says):
        torch.vmap(lambda x: operator(*spelling.values(), generics, [x], kinds, None, floats))(
            torch.ones(2, 3)
        )


# ---- who counts


@pytest.mark.parametrize("is_recorded", [False, True])
def test_counters_of_pytorch_are_told_the_arithmetic(is_recorded: bool) -> None:
    mm = tct.define("def mm(float(M,K) a, float(K,N) b) -> (c) { c(i, j) +=! a(i, k) * b(k, j) }")
    first = tct.define(FIRST)
    a, b = torch.randn(8, 16), torch.randn(16, 4)
    a.requires_grad_(is_recorded)
    with torch.utils.flop_counter.FlopCounterMode(display=False) as counter:
        c = mm(a, b)
        if is_recorded:
            c.sum().backward()
        else:
            mm(a, b, out=c)
    assert counter.get_total_flops() == 2 * mm.flops(M=8, K=16, N=4) == 2 * 1024
    counts = counter.get_flop_counts()["Global"]
    assert counts[torch.ops.tcdsl.call] == (2048 if is_recorded else 1024)
    x, n = torch.randn(9), torch.tensor(5, dtype=torch.int32)
    with torch.utils.flop_counter.FlopCounterMode(display=False) as counter:
        first(x, 2.0, n)
    assert counter.get_total_flops() == first.flops(x, 2.0, 5) > 0
