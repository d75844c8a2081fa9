"""Ever new sizes: nothing is chosen anew, nothing grows without end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.calls import host
from tcdsl.calls.bindings import meanwhile, ranks, session, variant
from tcdsl.calls.bindings.binding import Bound
from tcdsl.calls.bindings.variant import Variant, _about, spec_for
from tcdsl.calls.process.bounded import thinned
from tcdsl.codegen.choose import compiler
from tcdsl.codegen.machine.gpu import gpu_of
from tcdsl.codegen.toolchain.host import detect
from tcdsl.derived import with_tangents
from tcdsl.plain import kernel as plain

pytestmark = pytest.mark.cc

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m, n) +=! A(m, k) * B(k, n) }"


def test_a_new_size_asks_nothing_but_its_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    mm: Any = tc.define(MM, tune="off")

    def call(m: int, k: int, n: int) -> None:
        a, b = np.ones((m, k), np.float32), np.ones((k, n), np.float32)
        np.testing.assert_array_equal(mm(a, b), np.full((m, n), k))

    call(3, 3, 5)
    call(7, 11, 2)
    made = mm.variant().executables
    for name in ("generic_choice", "default_config", "lower_generic", "lower", "cost_ns"):
        monkeypatch.setattr(compiler, name, None)
    for n in (1, 2, 3, 7, 16, 97, 128, 300, 1009):
        call(5, n, 9)
        call(n, 5, 9)
        call(1, 2, n)
    assert mm.variant().executables == made


def test_a_third_batch_makes_no_executable_where_sums_over_it_go_in_parts() -> None:
    """The gradient of a bias is a few rows first, then so many that threads share them."""
    back: Any = tc.define("def back(float(M,N) D) -> (b) { b(n) +=! D(m, n) }", tune="off")
    for m, count in ((4, 1), (3, 2), (900, 2), (1, 2), (2000, 2)):
        np.testing.assert_array_equal(back(np.ones((m, 300), np.float32)), np.full(300, m))
        assert len(back.variant().executables) == count


def test_a_size_generic_text_does_not_depend_on_who_asks() -> None:
    """Sizes whose results caches hold share one text; those that none holds have another."""
    text = "def f(float(B,N) X) -> (Y) { S(b) +=! exp(X(b,n))  Y(b,n) = exp(X(b,n)) / S(b) }"
    checked = tc.define(text).variant().checked
    machine = replace(detect(), l3_bytes=1 << 20)

    def texts(*asked: tuple[int, int]) -> set[str]:
        found = set()
        for b, n in asked:
            bound = Variant(Bound(checked, machine, 2))
            sizes = {"B": b, "N": n}
            spec = replace(spec_for(bound, sizes), sizes=None)
            found.add(bound.text(spec, bound.default_config(spec, sizes), sizes))
        return found

    small, large = texts((1, 1), (3, 17), (64, 1000)), texts((64, 10_000), (2, 1 << 22))
    assert len(small) == len(large) == 1


def test_sizes_of_about_the_same_share_a_choice_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    choose = Variant._chosen_config

    def counted(self: Variant, spec: Any, sizes: Any) -> Any:
        made.append(sizes)
        return choose(self, spec, sizes)

    monkeypatch.setattr(Variant, "_chosen_config", counted)
    bound = Variant(Bound(tc.define(MM).variant().checked, gpu_of("sm_90"), 0))
    spec = replace(spec_for(bound, {"M": 8, "K": 8, "N": 8}), sizes=None)
    for n in range(100, 200):
        bound._config_at(spec, {"M": 8, "K": n, "N": 9})
    assert len(made) <= 20


def test_sizes_that_matter_stand_apart() -> None:
    assert len({_about(n) for n in range(-3, 16)}) == 19
    assert _about(64) != _about(65)
    assert _about(65) == _about(71) != _about(73)
    assert _about(-70) != _about(70)
    for n in (33, 1000, 123457):
        low, _ = _about(n)
        assert low <= n < low * 9 / 8 + 1


def test_tables_do_not_grow_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_MAX_ENTRIES", 20)
    monkeypatch.setattr(variant, "_MAX_SERVED", 20)
    add: Any = tc.define("def add(float(N) A) -> (C) { C(i) = A(i) + 1 }", tune="off")
    for n in range(1, 100):
        assert add(np.zeros(n, np.float32))[-1] == 1
    (bound,) = add.session._variants.values()
    assert len(add._host._entries) <= 20
    assert len(bound._serving) <= 20
    made = bound.executables
    add.clear()
    for n in range(1, 100):  # sizes that fell out find what served them
        assert add(np.zeros(n, np.float32))[-1] == 1
    assert bound.executables == made
    assert len(thinned(dict.fromkeys(range(8)), 9)) == 8


def test_layouts_keep_their_class_however_many_come() -> None:
    add: Any = tc.define("def add(float(N) A) -> (C) { C(i) = A(i) + 1 }", tune="off")
    x = np.arange(60, dtype=np.float32)
    forms = [x[:7], x[:9], x[::3], np.broadcast_to(x[:1], (5,)), x[::-2], x[:11]]
    for _ in range(2):
        for a in forms:
            np.testing.assert_array_equal(add(a), a + 1)
        add.clear()
        (bound,) = add.session._variants.values()
        counts = len(bound.executables), len(bound._own_classes)
    assert counts == (len(bound.executables), len(bound._own_classes))
    assert len(bound._own_classes) <= meanwhile.MAX_GENERIC


@pytest.mark.wide
def test_bindings_of_a_text_and_what_is_made_of_a_kernel_have_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session, "_MAX_VARIANTS", 4)
    monkeypatch.setattr(ranks, "_MAX_RANKED", 4)
    monkeypatch.setattr(plain, "_MAX_MADE", 4)
    monkeypatch.setattr(with_tangents, "_MOST_KNOWN", 4)
    text = "def add<S=0>(double(...) A, double(...) B) -> (C) { C(...) = A(...) + B(...) + S }"
    add: Any = tc.define(text, tune="off")
    one = np.ones((1, 1, 1))
    for _ in range(2):
        for s in range(6):
            assert add.call(one, one, S=s).variant is add.call(one, one, S=s).variant
        for rank in range(6):
            a = np.ones((2,) * rank)
            assert len(add.call(a, a).variant.checked.params[0].shape) == rank
    assert len(add.session._variants) <= 4
    assert len(add.session.ranks._bound) <= 4
    assert len(add.session.ranks._texts) <= 4
    dims = [f"x{i}" for i in range(8)]
    params = ", ".join(f"double(N) {d}" for d in dims)
    total: Any = tc.define(
        f"def total({params}) -> (y) {{ y(i) = {' + '.join(f'{d}(i)' for d in dims)} }}"
    )
    for d in dims:
        assert total.batched(d) is total.batched(d)
        assert str(total.batched(d)).count("(B, N)") >= 1
    assert len(total._made) <= 4
    x = [np.ones(2)] * 8
    for d in dims:
        _, along = total.jvp(x, {d: np.full(2, 3.0)})
        assert along.tolist() == [3, 3]
    assert len(total.with_tangents()._known) <= 4
