"""What a kernel is to Python's own tools: names, signature, doc, text, repr."""

from __future__ import annotations

import doctest
import functools
import importlib
import inspect
import pydoc
from typing import Any

import numpy as np
import pytest

import tcdsl as tc

TEXT = """
# above
def moments(float(B,N) X) -> (m, v) {
  m(b) +=! X(b, n) / N  # a comment inside
  v(b) +=! (X(b, n) - m(b)) * (X(b, n) - m(b)) / N
}
def normalize(float(B,N) X) -> (Y) {
  m, v = moments(X)
  Y(b, n) = (X(b, n) - m(b)) * rsqrt(v(b) + {eps})
}
def every<S=2, T>(T(N) A) -> (B) { B(i) = A(S * i) }
def same(float(N,C,H,W) I, float(F,C,3,3) K) -> (float(N,F,H,W) O) {
  O(n, f, h, w) +=! pad(I(n, c, h + kh - 1, w + kw - 1), 0) * K(f, c, kh, kw)
}
def add<T>(T(...) A, T(..., D) B) -> (C) { C(...) = A(...) + B(...) }
def scaled<M, N>(float(N) A, double s) -> (B) { B(i) = s < M ? A(i) : 0 }
"""
SQUARE = "def square(double(N) x) -> (y) { y(i) = x(i) * x(i) }"


@pytest.fixture(scope="module")
def k() -> Any:
    return tc.define_all(TEXT, {"eps": 1e-5}, tune="off")


def test_repr_and_signature_have_names_and_types(k: Any) -> None:
    assert [repr(kernel) for kernel in k] == [
        "<tcdsl kernel moments(float32(B, N) X) -> m, v>",
        "<tcdsl kernel normalize(float32(B, N) X) -> Y>",
        "<tcdsl kernel every<S=2, T>(T(N) A) -> B>",
        "<tcdsl kernel same(float32(N, C, H, W) I, float32(F, C, 3, 3) K)"
        " -> float32(N, F, H, W) O>",
        "<tcdsl kernel add<T>(T(...) A, T(..., D) B) -> C>",
        "<tcdsl kernel scaled<M, N>(float32(N) A, float64 s) -> B>",
    ]
    assert [str(inspect.signature(kernel)) for kernel in k] == [
        "(X: float32(B, N), *, out=None) -> (m, v)",
        "(X: float32(B, N), *, out=None) -> Y",
        "(A: T(N), *, S: int = 2, T: type = ..., out=None) -> B",
        "(I: float32(N, C, H, W), K: float32(F, C, 3, 3), *, out=None) -> float32(N, F, H, W) O",
        "(A: T(...), B: T(..., D), *, T: type = ..., out=None) -> C",
        "(A: float32(N), s: float64, *, M: int, N: int = ..., out=None) -> B",
    ]


@pytest.mark.cc
def test_a_signature_binds_what_a_call_takes(k: Any) -> None:
    x = np.arange(8)
    bound = inspect.signature(k.every).bind(A=x, S=3)
    assert k.every(*bound.args, **bound.kwargs).tolist() == [0, 3, 6]
    with pytest.raises(TypeError, match="missing a required"):
        inspect.signature(k.scaled).bind(x)


def test_names_that_python_keeps_for_itself_have_a_signature() -> None:
    text = """
def f<is=1, out=2>(float(N) A, float(N) lambda, float(N) B) -> (C) {
  C(i) = is * A(i) + out * lambda(i) + B(i)
}"""
    assert str(inspect.signature(tc.define(text, tune="off"))) == (
        "(A: float32(N), lambda: float32(N), /, B: float32(N), *, out: int = 2, **generics) -> C"
    )


def test_the_class_keeps_its_own_names_and_doc(k: Any) -> None:
    from tcdsl.kernel import Kernel

    class Sub(Kernel):
        pass

    class Told(Kernel):
        """Told."""

    normalize = k.normalize
    made = [kind(normalize.session, normalize.definition) for kind in (Kernel, Sub, Told)]
    assert {m.__doc__ for m in made} == {normalize.__doc__}
    assert (Kernel.__name__, Kernel.__qualname__) == ("Kernel", "Kernel")
    assert str(Kernel.__doc__).startswith("A definition as a callable on arrays.")
    assert (Sub.__doc__, Told.__doc__) == (None, "Told.")
    assert [*inspect.signature(Kernel).parameters] == ["session", "definition", "backward"]
    assert "output_shapes" in pydoc.plain(pydoc.render_doc(Kernel))


def test_help_reads_like_that_of_a_function(k: Any) -> None:
    normalize = k.normalize
    assert (normalize.__name__, normalize.__qualname__) == ("normalize", "normalize")
    assert normalize.__module__ == "tcdsl.kernel"
    text = pydoc.plain(pydoc.render_doc(normalize))
    assert "normalize = <tcdsl kernel normalize(float32(B, N) X) -> Y>" in text
    assert inspect.getdoc(normalize) == (
        "normalize(float32(B, N) X) -> Y\n"
        "\n"
        "A kernel of tcdsl, made of the text below.\n"
        "\n"
        "Parameters\n"
        "----------\n"
        "X : float32(B, N)\n"
        "out : what to write into, by keyword, optional\n"
        "\n"
        "Returns\n"
        "-------\n"
        "Y : float32(B, N)\n"
        "\n"
        "Text\n"
        "----\n" + normalize.source
    )
    told = inspect.getdoc(k.every) or ""
    assert '\nS : int, by keyword, default 2\nT : type, as "float32", by keyword, by def' in told
    assert "\nm : float32(B)\nv : float32(B)\n" in (inspect.getdoc(k.moments) or "")

    @functools.wraps(normalize)
    def wrapped(*args: Any) -> Any:
        return normalize(*args)

    assert (wrapped.__name__, wrapped.__doc__) == ("normalize", normalize.__doc__)
    assert inspect.signature(wrapped) == inspect.signature(normalize)


def test_source_is_the_text_as_written_with_what_it_calls(k: Any) -> None:
    written = TEXT.replace("{eps}", "1e-05")
    first, second = written.index("def normalize"), written.index("def every")
    assert k.normalize.source == written[written.index("def moments") : second].rstrip()
    assert k.moments.source == written[written.index("def moments") : first].rstrip()
    assert k.every.source == "def every<S=2, T>(T(N) A) -> (B) { B(i) = A(S * i) }"


def test_source_is_the_same_kernel_again(k: Any) -> None:
    square = tc.define(SQUARE, tune="off")
    slope = tc.grad(square)
    made = [*k, k.add.with_rank(2), slope, slope.whole, tc.grad(slope), tc.grad(slope).whole]
    for kernel in made:
        again = tc.define(kernel.source, kernel.name, tune="off")
        assert again.definition == kernel.definition
        assert again.source == kernel.source
    assert k.add.with_rank(1).source.startswith("def add<T>(T(D) A, T(D0, D) B)")


def test_a_repr_for_notebooks_is_escaped() -> None:
    f = tc.define("def f<S=1>(float(N) A) -> (B) { B(i) = i < S && A(i) > 0 ? A(i) : 0 }")
    assert f._repr_html_() == (
        "<details><summary><code>f&lt;S=1&gt;(float32(N) A) -&gt; B</code></summary><pre>"
        "def f&lt;S=1&gt;(float(N) A) -&gt; (B) "
        "{ B(i) = i &lt; S &amp;&amp; A(i) &gt; 0 ? A(i) : 0 }</pre></details>"
    )


class _Examples(doctest.DocTestFinder):
    """Finds what a file defines, whatever public room says that it has it."""

    def _from_module(self, module: Any, object: Any) -> bool:
        if inspect.isclass(object):
            return any(self._from_module(module, f) for f in vars(object).values() if callable(f))
        code = getattr(inspect.unwrap(object), "__code__", None)
        return code is not None and code.co_filename == module.__file__


@pytest.mark.cc
@pytest.mark.parametrize(
    "name",
    [
        *("definitions", "derived.kernel", "reverse_mode", "forward_mode"),
        *("plain.described", "derived.with_gradient", "text.signature", "calls.process.bounded"),
    ],
)
def test_examples_in_docstrings_run(name: str) -> None:
    runner = doctest.DocTestRunner()
    for examples in _Examples().find(importlib.import_module(f"tcdsl.{name}")):
        runner.run(examples)
    assert runner.tries
    assert runner.failures == 0
