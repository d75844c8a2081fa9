"""The operator `tcdsl::call`: modes, fake and meta tensors, tracers, arguments, spoiled calls."""

from __future__ import annotations

import gc
import io
import sys
from pathlib import Path
from typing import Any

import pytest

import tcdsl as tc
from tcdsl.grammar.text.errors import TCError, TCTypeError
from tests.torch.texts import CONV, FCRELU, FIRST, NOISE

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
