"""`define(..., deterministic=True)`: atomic sums of floats by default, none where it is asked."""

from __future__ import annotations

from typing import Any

import pytest

import tcdsl as tc
from tcdsl.autotune.targets.key import key_for
from tcdsl.calls.bindings.variant import spec_for
from tcdsl.codegen.machine.gpu import gpu_of

TEXT = """def f(int32(B) I, float(B,D) g, float(N,D) E) -> (float(N,D) dE) {
    dE(I(b), d) +=! g(b, d)
}"""
SIZES = {"B": 5000, "D": 8, "N": 40}


def made(**options: Any) -> tc.Kernel:
    f = tc.define(TEXT, tune="off", **options)
    assert isinstance(f, tc.Kernel)
    return f


@pytest.mark.parametrize("sizes", [None, SIZES])
def test_sums_are_atomic_unless_the_same_bits_are_asked_for(sizes: dict[str, int] | None) -> None:
    assert "tc_atomic_add_f32" in made().text(sizes, target="cuda:sm_90")
    assert "tc_atomic_add_f32" not in made(deterministic=True).text(sizes, target="cuda:sm_90")


def test_what_is_tuned_for_one_is_not_found_by_the_other() -> None:
    keys = set()
    for asked in (False, True):
        f = made(deterministic=asked)
        variant = f.session.variant(f.definition, {}, gpu_of("sm_90"))
        keys.add(key_for(variant.checked, spec_for(variant, SIZES), "cuda", "nvrtc"))
    assert len(keys) == 2


def test_on_the_cpu_there_is_one_kernel_for_both() -> None:
    assert made().text(SIZES) == made(deterministic=True).text(SIZES)


def test_a_gradient_is_as_its_function() -> None:
    for asked in (False, True):
        f = tc.define(
            "def f(float(N,D) E, int32(B) I) -> (O) { O(b, d) = E(I(b), d) }",
            tune="off",
            deterministic=asked,
        )
        assert isinstance(f, tc.Kernel)
        text = tc.grad(f).text(SIZES, target="cuda:sm_90")
        assert ("tc_atomic_add_f32" in text) is not asked
