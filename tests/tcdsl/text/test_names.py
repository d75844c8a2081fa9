"""Any name the language takes, in Python: attributes, keywords, results."""

from __future__ import annotations

import keyword
from typing import Any

import numpy as np
import pytest

import tcdsl as tc
from tcdsl.codegen.toolchain.nvrtc import compile_cuda
from tcdsl.grammar.text.errors import TCError, TCTypeError
from tcdsl.kernel import Kernel
from tests.tiers import sampled

pytestmark = pytest.mark.cc

X = np.arange(1, 5, dtype=np.float32)
DOUBLE = "def {}(float(N) A) -> (O) {{ O(i) = 2 * A(i) }}"


def kernel(text: str) -> Kernel:
    defined = tc.define(text, tune="off")
    assert isinstance(defined, Kernel)
    return defined


@pytest.mark.parametrize("name", ["text", "_dispatch", "class"])
def test_a_definition_has_any_name_alone_or_among_others(name: str) -> None:
    alone = kernel(DOUBLE.format(name))
    assert alone[name] is alone
    with pytest.raises(KeyError, match="no definition 'other'"):
        alone["other"]
    both = tc.define(f"{DOUBLE.format(name)} {DOUBLE.format('other')}", tune="off")
    assert isinstance(both, tc.Definitions)
    assert both[name].name == getattr(both, name).name == name


def test_definitions_hide_none_of_their_names() -> None:
    names = ("_kernels", "_Definitions__kernels", "keys", "kernels")
    both = tc.define(" ".join(map(DOUBLE.format, names)), tune="off")
    assert isinstance(both, tc.Definitions)
    assert [both[n].name for n in names] == [k.name for k in both] == list(names)
    assert both._kernels.name == "_kernels"


SCALED = "def f<S=1>(float(N) A) -> (O) { O(i) = S * A(i) }"


@pytest.mark.parametrize("value", [2, np.int64(2), np.uint8(2), np.array(2)], ids=repr)
def test_a_generic_takes_any_integer(value: Any) -> None:
    k = kernel(SCALED)
    assert k(X, S=value).tolist() == (2 * X).tolist()
    assert k.variant(S=value) is k.variant(S=2)
    assert k.vjp(X, S=value)[1](X).tolist() == (2 * X).tolist()


@pytest.mark.parametrize("value", [2.0, True, "2", None, [2]], ids=repr)
def test_a_generic_is_an_integer(value: Any) -> None:
    with pytest.raises(TCTypeError, match="f: expected an integer for generic 'S', got"):
        kernel(SCALED)(X, S=value)


@pytest.mark.parametrize("value", [np.float64, np.dtype("float64"), "float64", "double", float])
def test_a_type_variable_takes_what_numpy_takes(value: Any) -> None:
    k = kernel("def cast<R, T>(T(...) X) -> (R(...) Y) { Y(...) = R(X(...)) }")
    assert k(X, R=value).dtype == np.float64


@pytest.mark.parametrize("value", [3, "float65", "S4", complex, None])
def test_a_type_variable_is_a_type(value: Any) -> None:
    k = kernel("def cast<R, T>(T(...) X) -> (R(...) Y) { Y(...) = R(X(...)) }")
    with pytest.raises(TCTypeError, match="expected a scalar type for type variable 'R', got"):
        k(X, R=value)


@sampled("name", ["self", "out", "outputs", "kernel", "lambda"], keep=2)
def test_a_parameter_of_any_name_is_given_by_keyword(name: str) -> None:
    k = kernel(f"def f(float(N) A, float(N) {name}) -> (O) {{ O(i) = A(i) + {name}(i) }}")
    assert k(X, **{name: X}).tolist() == (2 * X).tolist()
    out, pull = k.vjp(X, **{name: X})
    assert out.tolist() == (2 * X).tolist()
    assert [d.tolist() for d in pull(X)] == [X.tolist(), X.tolist()]
    k.tuned_config(X, **{name: X})
    buffer = np.empty_like(X)
    assert k(X, X, out=buffer) is buffer
    assert buffer.tolist() == (2 * X).tolist()


@pytest.mark.parametrize("name", ["self", "out", "target", "seed"])
def test_a_generic_of_any_name_is_given_by_keyword(name: str) -> None:
    k = kernel(f"def f<{name}=1>(float(N) A) -> (O) {{ O(i) = {name} * A(i) }}")
    assert k(X, **{name: 3}).tolist() == (3 * X).tolist()


@sampled("name", ["count", "_low", "_0", "class", "_make"], keep=2)
def test_results_have_the_names_of_the_text(name: str) -> None:
    k = kernel(f"def f(float(N) A) -> (O, {name}) {{ O(i) = A(i) {name}(i) = 2 * A(i) }}")
    for results in (k(X), k(X)):  # the first, and through the launcher
        assert results[1].tolist() == (2 * X).tolist()
        if name != "_make":  # the tuple's own
            assert getattr(results, name) is results[1]
        assert results.O is results[0]
        with pytest.raises(AttributeError, match="no result 'P'; f gives O, "):
            _ = results.P


def test_a_definition_with_several_results_has_any_name() -> None:
    names = [n for n in keyword.kwlist if n not in {"for", "in"}]
    taken = 0
    for name in names:
        text = f"def {name}(float(N) A) -> (O, P) {{ O(i) = A(i) P(i) = A(i) }}"
        try:
            k = kernel(text)
        except TCError:  # a word of another language: TC006, TC009
            continue
        taken += 1
        assert k[name].returns == ("O", "P")
    assert taken > 20


@pytest.mark.parametrize("length", [255, pytest.param(4000, marks=pytest.mark.wide)])
def test_names_have_any_length(length: int) -> None:
    name = "q" * length
    k = kernel(
        f"def {name}(float({name}N) {name}A) -> ({name}O) "
        f"{{ {name}t({name}i) = {name}A({name}i) {name}O({name}i) = 2 * {name}t({name}i) }}"
    )
    out, pull = k.vjp(X)
    assert out.tolist() == pull(X).tolist() == (2 * X).tolist()
    assert name in k.text()


# Words of C, of CUDA, macros of their headers, and names that the emitted text has of its own.
WORDS = (
    *("asm", "auto", "begin", "blockIdx", "end", "errno", "float4", "goto", "half", "inline"),
    *("int", "linux", "main", "nullptr", "part_0", "register", "restrict", "static", "stdin"),
    *("t_0", "task", "tc_args", "tc_fault", "tc_i64", "this", "typeof", "unix", "warpSize"),
    *("protected", "constexpr", "bitand", "noexcept", "char8_t", "threadIdx", "static_assert"),
    *("workspace", "EOF", "I", "INFINITY", "M_PI", "NAN", "NULL", "TC_ABI", "_Bool", "__global__"),
)
FEW = ("int", "tc_args", "nullptr", "blockIdx", "INFINITY")


@pytest.mark.nvrtc
@sampled("word", WORDS, keep=1, wide=3)
def test_a_name_may_be_a_word_of_the_emitted_language(word: str) -> None:
    roles = (
        f"def {word}(float(N) A, float s) -> (O) {{ O(i) = s * A(i) }}",
        f"def f(float({word}) A, float s) -> (O) {{ O(i) = s * A(i) where i in 0:{word} }}",
        f"def f(float(N) {word}, float s) -> (O) {{ O(i) = s * {word}(i) }}",
        f"def f(float(N) A, float {word}) -> (O) {{ O(i) = {word} * A(i) }}",
        f"def f(float(N) A, float s) -> ({word}) {{ {word}(i) = s * A(i) }}",
        f"def f(float(N) A, float s) -> (O) {{ O({word}) = s * A({word}) }}",
        f"def f(float(N) A, float s) -> (O) {{ {word}(j) +=! A(i) where j in 0:N "
        f"O(i) = s * A(i) + 0.0 * {word}(i) }}",
        f"def f(float(N) A, float s) -> (O) {{ O(i) = A(i) "
        f"for {word} in 1:2 {{ O(i) = O(i) * s * {word} }} }}",
    )
    for text in roles:
        k = kernel(text)
        assert k(X, 2.0).tolist() == (2 * X).tolist(), text
        compile_cuda(k.text(target="cuda:sm_90"), "sm_90", name="k")
