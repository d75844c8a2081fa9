"""Gradients beside what an expert writes by hand: no more statements, no more reads."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tcdsl.codegen.gradient.vjp import gradient
from tcdsl.codegen.program.expressions import reads_of
from tcdsl.grammar.check.definition import check
from tcdsl.grammar.text.parser import parse
from tcdsl.grammar.types.typed import statements


@dataclass(frozen=True)
class Entry:
    """A definition, its gradient by hand, and what the derived one has more.

    A number above 0 is a gap that is known; it may shrink here, and never grows.
    """

    text: str
    by_hand: str
    more_statements: int = 0
    more_reads: int = 0


NM = "float(N,M)"
TABLE = {
    "softmax": Entry(
        """def f(float(N,M) X) -> (Y) {
            mx(n) max=! X(n, m)  E(n, m) = exp(X(n, m) - mx(n))
            s(n) +=! E(n, m)  Y(n, m) = E(n, m) / s(n)
        }""",
        """def g(float(N,M) Y, float(N,M) d_Y) -> (d_X) {
            a(n) +=! d_Y(n, m) * Y(n, m)  d_X(n, m) = (d_Y(n, m) - a(n)) * Y(n, m)
        }""",
    ),
    "logsumexp": Entry(
        """def f(float(N,M) X) -> (Y) {
            mx(n) max=! X(n, m)  s(n) +=! exp(X(n, m) - mx(n))  Y(n) = mx(n) + log(s(n))
        }""",
        """def g(float(N,M) X, float(N) Y, float(N) d_Y) -> (d_X) {
            d_X(n, m) = d_Y(n) * exp(X(n, m) - Y(n))
        }""",
        more_statements=1,
        more_reads=2,
    ),
    "log softmax": Entry(
        """def f(float(N,M) X) -> (Y) {
            mx(n) max=! X(n, m)  s(n) +=! exp(X(n, m) - mx(n))
            Y(n, m) = X(n, m) - mx(n) - log(s(n))
        }""",
        """def g(float(N,M) Y, float(N,M) d_Y) -> (d_X) {
            a(n) +=! d_Y(n, m)  d_X(n, m) = d_Y(n, m) - a(n) * exp(Y(n, m))
        }""",
        more_reads=2,
    ),
    "masked softmax, scaled": Entry(
        """def f(float(N,M) X) -> (Y) {
            mx(n) max=! X(n, m)  E(n, m) = m <= n ? exp(0.125 * (X(n, m) - mx(n))) : 0.0
            s(n) +=! E(n, m)  Y(n, m) = E(n, m) / s(n)
        }""",
        """def g(float(N,M) Y, float(N,M) d_Y) -> (d_X) {
            a(n) +=! d_Y(n, m) * Y(n, m)  d_X(n, m) = 0.125 * (d_Y(n, m) - a(n)) * Y(n, m)
        }""",
        more_statements=1,
        more_reads=4,
    ),
    "a maximum that is returned": Entry(
        "def f(float(N,M) X) -> (Y) { Y(n) max=! X(n, m) }",
        """def g(float(N,M) X, float(N) Y, float(N) d_Y) -> (d_X) {
            p(n) min=! X(n, m) == Y(n) || isnan(X(n, m)) ? m : 2147483647
            d_X(n, m) = m == p(n) ? d_Y(n) : 0.0 where m in 0:M
        }""",
    ),
    "a maximum that something else reads": Entry(
        """def f(float(N,M) X) -> (Y) {
            mx(n) max=! X(n, m)  Y(n, m) = exp(X(n, m) - mx(n))
        }""",
        """def g(float(N,M) X, float(N) mx, float(N,M) Y, float(N,M) d_Y) -> (d_X) {
            a(n) +=! -(d_Y(n, m) * Y(n, m))
            p(n) min=! X(n, m) == mx(n) || isnan(X(n, m)) ? m : 2147483647
            d_X(n, m) = d_Y(n, m) * Y(n, m) + (m == p(n) ? a(n) : 0.0)
        }""",
    ),
    "gelu": Entry(
        "def f(float(N) X) -> (Y) { Y(n) = gelu(X(n)) }",
        """def g(float(N) X, float(N) d_Y) -> (d_X) {
            d_X(n) = d_Y(n) * (normcdf(X(n)) + X(n) * 0.4 * exp(-0.5 * X(n) * X(n)))
        }""",
    ),
    "SwiGLU": Entry(
        """def f(float(N,M) G, float(N,M) U) -> (Y) {
            Y(n, m) = G(n, m) * sigmoid(G(n, m)) * U(n, m)
        }""",
        """def g(float(N,M) G, float(N,M) U, float(N,M) d_Y) -> (d_G, d_U) {
            S(n, m) = sigmoid(G(n, m))
            d_U(n, m) = d_Y(n, m) * G(n, m) * S(n, m)
            d_G(n, m) = d_Y(n, m) * U(n, m) * S(n, m) * (1.0 + G(n, m) * (1.0 - S(n, m)))
        }""",
        more_reads=2,
    ),
    "cumulative sum": Entry(
        "def f(float(N,M) X) -> (float(N,M) Y) { Y(n, m) +=! X(n, j) where j in 0 : m + 1 }",
        "def g(float(N,M) d_Y) -> (float(N,M) d_X) { d_X(n, j) +=! d_Y(n, m) where m in j:M }",
    ),
    "square": Entry(
        "def f(float(N) X) -> (Y) { Y(n) = X(n) * X(n) }",
        "def g(float(N) X, float(N) d_Y) -> (d_X) { d_X(n) = 2.0 * d_Y(n) * X(n) }",
    ),
    "layer norm": Entry(
        """def f(float(N,M) X, float(M) w, float(M) b) -> (Y) {
            mu(n) +=! X(n, m) / float(M)
            v(n) +=! (X(n, m) - mu(n)) * (X(n, m) - mu(n)) / float(M)
            Y(n, m) = (X(n, m) - mu(n)) * rsqrt(v(n) + 1e-5) * w(m) + b(m)
        }""",
        """def g(float(N,M) X, float(M) w, float(N) mu, float(N) v, float(N,M) d_Y)
            -> (d_X, d_w, d_b) {
            d_b(m) +=! d_Y(n, m)
            d_w(m) +=! d_Y(n, m) * (X(n, m) - mu(n)) * rsqrt(v(n) + 1e-5)
            a(n) +=! d_Y(n, m) * w(m)
            c(n) +=! d_Y(n, m) * w(m) * (X(n, m) - mu(n))
            d_X(n, m) = rsqrt(v(n) + 1e-5) * (d_Y(n, m) * w(m) - a(n) / float(M)
                - (X(n, m) - mu(n)) * c(n) / ((v(n) + 1e-5) * float(M)))
        }""",
        more_statements=1,
        more_reads=8,
    ),
    "product of two": Entry(
        "def f(float(M,K) A, float(K,N) B) -> (O) { O(i, j) +=! A(i, k) * B(k, j) }",
        """def g(float(M,K) A, float(K,N) B, float(M,N) d_O) -> (d_A, d_B) {
            d_B(k, j) +=! d_O(i, j) * A(i, k)  d_A(i, k) +=! d_O(i, j) * B(k, j)
        }""",
    ),
}


def counted(text: str) -> tuple[int, int]:
    """Return the statements of a definition, and the reads of all of them."""
    found = [*statements(check(parse(text)).body)]
    return len(found), sum(len(reads_of(s.value)) for s in found)


@pytest.mark.parametrize("name", TABLE)
def test_no_more_than_by_hand(name: str) -> None:
    entry = TABLE[name]
    text = gradient(check(parse(entry.text))).text
    (lines, reads), (by_hand, its_reads) = counted(text), counted(entry.by_hand)
    assert lines - by_hand <= entry.more_statements, text
    assert reads - its_reads <= entry.more_reads, text


@pytest.mark.parametrize(
    "body",
    [
        # the extreme is a result, of a sum, under another power, of another row, of turns
        "mx(n) max=! X(n, m)  s(n) +=! exp(X(n, m) - mx(n))  Y(n) = s(n)",
        "mx(n) max=! X(n, m)  s(n) +=! X(n, m) - mx(n)  Y(n) = s(n) + mx(n)",
        "mx(n) max=! X(n, m)  s(n) +=! exp(X(n, m) - mx(n))  Y(n) = 2.0 * mx(n) + log(s(n))",
        "mx(n) max=! X(n, m)  s(n) +=! exp(X(n, m) - mx(n)) + 1  Y(n) = mx(n) + log(s(n))",
        "mx(n) max=! X(n, m)  E(n, m) = exp(X(n, m) - mx(n))  s(m) +=! E(n, m)  "
        "Y(n, m) = E(n, m) / s(m)",
        "mx(n) max=! X(n, m)  E(n, m) = exp(X(n, m) - mx(n))  s(n) +=! E(n, m) * E(n, m)  "
        "Y(n, m) = E(n, m) / s(n)",
    ],
)
def test_an_extreme_that_counts_is_gone_through(body: str) -> None:
    text = gradient(check(parse(f"def f(float(N,M) X) -> (Y) {{ {body} }}"))).text
    assert "place" in text, text
