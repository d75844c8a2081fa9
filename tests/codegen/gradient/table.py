"""Definitions, their gradients as an expert writes them, and what derived ones have more.

A gap that is known stands here under its name; it may shrink, and never grows.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Costs:
    """What a definition does: its statements, reads in their text, arithmetic, temporaries.

    work: operations of a call of `SIZES`. kept: bytes of temporaries there.
    """

    statements: int = 0
    reads: int = 0
    work: int = 0
    kept: int = 0


@dataclass(frozen=True)
class Entry:
    """A definition, its gradient by hand, what the derived one has more, and why."""

    text: str
    by_hand: str
    more: Costs = field(default_factory=Costs)
    why: str = ""


SIZES = {
    **dict.fromkeys("ABCDEFGIJKLMNOSV", 16),
    "H": 10,
    "W": 10,
    "KH": 3,
    "KW": 3,
    "P": 8,
    "HALF": 4,
    "MID": 5,
    "T": 7,
    "T1": 8,
}

TABLE = {
    "softmax": Entry(
        """def f(float(N,M) X) -> (Y) {
            mx(n) max=! X(n, m)  E(n, m) = exp(X(n, m) - mx(n))
            s(n) +=! E(n, m)  Y(n, m) = E(n, m) / s(n)
        }""",
        """def hand(float(N,M) Y, float(N,M) d_Y) -> (d_X) {
            a(n) +=! d_Y(n, m) * Y(n, m)  d_X(n, m) = (d_Y(n, m) - a(n)) * Y(n, m)
        }""",
    ),
    "logsumexp": Entry(
        """def f(float(N,M) X) -> (Y) {
            mx(n) max=! X(n, m)  s(n) +=! exp(X(n, m) - mx(n))  Y(n) = mx(n) + log(s(n))
        }""",
        """def hand(float(N,M) X, float(N) Y, float(N) d_Y) -> (d_X) {
            d_X(n, m) = d_Y(n) * exp(X(n, m) - Y(n))
        }""",
        more=Costs(statements=1, reads=2, work=16, kept=64),
        why="exp(X - Y) loses digits where Y is large: it is read as it went into the sum",
    ),
    "log softmax": Entry(
        """def f(float(N,M) X) -> (Y) {
            mx(n) max=! X(n, m)  s(n) +=! exp(X(n, m) - mx(n))
            Y(n, m) = X(n, m) - mx(n) - log(s(n))
        }""",
        """def hand(float(N,M) Y, float(N,M) d_Y) -> (d_X) {
            a(n) +=! d_Y(n, m)  d_X(n, m) = d_Y(n, m) - a(n) * exp(Y(n, m))
        }""",
    ),
    "masked softmax, scaled": Entry(
        """def f(float(N,M) X) -> (Y) {
            mx(n) max=! X(n, m)  E(n, m) = m <= n ? exp(0.125 * (X(n, m) - mx(n))) : 0.0
            s(n) +=! E(n, m)  Y(n, m) = E(n, m) / s(n)
        }""",
        """def hand(float(N,M) Y, float(N,M) d_Y) -> (d_X) {
            a(n) +=! d_Y(n, m) * Y(n, m)  d_X(n, m) = 0.125 * (d_Y(n, m) - a(n)) * Y(n, m)
        }""",
    ),
    "a maximum that is returned": Entry(
        "def f(float(N,M) X) -> (Y) { Y(n) max=! X(n, m) }",
        """def hand(float(N,M) X, int32(N) Y_place, float(N) d_Y) -> (float(N,M) d_X) {
            d_X(n, m) = m == Y_place(n) ? d_Y(n) : 0.0 where m in 0:M
        }""",
    ),
    "a maximum that something else reads": Entry(
        """def f(float(N,M) X) -> (Y) {
            mx(n) max=! X(n, m)  Y(n, m) = exp(X(n, m) - mx(n))
        }""",
        """def hand(int32(N) mx_place, float(N,M) Y, float(N,M) d_Y) -> (d_X) {
            a(n) +=! -(d_Y(n, m) * Y(n, m))
            d_X(n, m) = d_Y(n, m) * Y(n, m) + (m == mx_place(n) ? a(n) : 0.0)
        }""",
    ),
    "gelu": Entry(
        "def f(float(N) X) -> (Y) { Y(n) = gelu(X(n)) }",
        """def hand(float(N) X, float(N) d_Y) -> (d_X) {
            d_X(n) = d_Y(n) * (normcdf(X(n)) + X(n) * 0.3989422804014327 * exp(-0.5 * X(n) * X(n)))
        }""",
        more=Costs(work=32),
        why="its density is written with more numbers than needed",
    ),
    "SwiGLU": Entry(
        """def f(float(N,M) G, float(N,M) U) -> (Y) {
            Y(n, m) = G(n, m) * sigmoid(G(n, m)) * U(n, m)
        }""",
        """def hand(float(N,M) G, float(N,M) U, float(N,M) d_Y) -> (d_G, d_U) {
            S(n, m) = sigmoid(G(n, m))
            d_U(n, m) = d_Y(n, m) * G(n, m) * S(n, m)
            d_G(n, m) = d_Y(n, m) * U(n, m) * S(n, m) * (1.0 + G(n, m) * (1.0 - S(n, m)))
        }""",
        more=Costs(reads=2, work=1280),
        why="the sigmoid is called where it is read; a phase has it in a register",
    ),
    "cumulative sum": Entry(
        "def f(float(N,M) X) -> (float(N,M) Y) { Y(n, m) +=! X(n, j) where j in 0 : m + 1 }",
        "def hand(float(N,M) d_Y) -> (float(N,M) d_X) { d_X(n, j) +=! d_Y(n, m) where m in j:M }",
    ),
    "square": Entry(
        "def f(float(N) X) -> (Y) { Y(n) = X(n) * X(n) }",
        "def hand(float(N) X, float(N) d_Y) -> (d_X) { d_X(n) = 2.0 * d_Y(n) * X(n) }",
    ),
    "layer norm": Entry(
        """def f(float(N,M) X, float(M) w, float(M) b) -> (Y) {
            mu(n) +=! X(n, m) / float(M)
            v(n) +=! (X(n, m) - mu(n)) * (X(n, m) - mu(n)) / float(M)
            Y(n, m) = (X(n, m) - mu(n)) * rsqrt(v(n) + 1e-5) * w(m) + b(m)
        }""",
        """def hand(float(N,M) X, float(M) w, float(N) mu, float(N) v, float(N,M) d_Y)
            -> (d_X, d_w, d_b) {
            d_b(m) +=! d_Y(n, m)
            d_w(m) +=! d_Y(n, m) * (X(n, m) - mu(n)) * rsqrt(v(n) + 1e-5)
            a(n) +=! d_Y(n, m) * w(m)
            c(n) +=! d_Y(n, m) * w(m) * (X(n, m) - mu(n))
            d_X(n, m) = rsqrt(v(n) + 1e-5) * (d_Y(n, m) * w(m) - a(n) / float(M)
                - (X(n, m) - mu(n)) * c(n) / ((v(n) + 1e-5) * float(M)))
        }""",
        more=Costs(reads=2, work=2048),
        why="factors of a row stand within its sums; the pass hoists them",
    ),
    "product of two": Entry(
        "def f(float(M,K) A, float(K,N) B) -> (O) { O(i, j) +=! A(i, k) * B(k, j) }",
        """def hand(float(M,K) A, float(K,N) B, float(M,N) d_O) -> (d_A, d_B) {
            d_B(k, j) +=! d_O(i, j) * A(i, k)  d_A(i, k) +=! d_O(i, j) * B(k, j)
        }""",
    ),
    "convolution": Entry(
        """def f(float(N,C,H,W) X, float(F,C,KH,KW) K) -> (Y) {
            Y(n, o, h, w) +=! X(n, c, h + y, w + x) * K(o, c, y, x)
        }""",
        """def hand(float(N,C,H,W) X, float(F,C,KH,KW) K, float(N,F,P,P) d_Y)
            -> (float(N,C,H,W) d_X, float(F,C,KH,KW) d_K) {
            d_K(o, c, y, x) +=! d_Y(n, o, h, w) * X(n, c, h + y, w + x)
                where y in 0:KH, x in 0:KW, h in 0:P, w in 0:P
            d_X(n, c, i, j) +=! pad(d_Y(n, o, i - y, j - x), 0) * K(o, c, y, x)
        }""",
    ),
    "convolution, stride 2": Entry(
        """def f(float(N,C,H,W) X, float(F,C,3,3) K) -> (Y) {
            Y(n, o, h, w) +=! X(n, c, 2 * h + y, 2 * w + x) * K(o, c, y, x)
        }""",
        """def hand(float(N,C,H,W) X, float(F,C,3,3) K, float(N,F,HALF,HALF) d_Y)
            -> (float(N,C,H,W) d_X, float(F,C,3,3) d_K) {
            d_K(o, c, y, x) +=! d_Y(n, o, h, w) * X(n, c, 2 * h + y, 2 * w + x)
                where y in 0:3, x in 0:3, h in 0:HALF, w in 0:HALF
            d_X(n, c, 2 * i, 2 * j) +=! pad(d_Y(n, o, i - y, j - x), 0) * K(o, c, 2 * y, 2 * x)
            d_X(n, c, 2 * i, 2 * j + 1) +=! pad(d_Y(n, o, i - y, j), 0) * K(o, c, 2 * y, 1)
                where j in 0:W/2
            d_X(n, c, 2 * i + 1, 2 * j) +=! pad(d_Y(n, o, i, j - x), 0) * K(o, c, 1, 2 * x)
                where i in 0:H/2
            d_X(n, c, 2 * i + 1, 2 * j + 1) +=! pad(d_Y(n, o, i, j), 0) * K(o, c, 1, 1)
                where i in 0:H/2, j in 0:W/2
        }""",
    ),
    "depthwise": Entry(
        """def f(float(N,C,H,W) X, float(C,3,3) K) -> (float(N,C,H,W) Y) {
            Y(n, c, h, w) +=! pad(X(n, c, h + y - 1, w + x - 1), 0) * K(c, y, x)
        }""",
        """def hand(float(N,C,H,W) X, float(C,3,3) K, float(N,C,H,W) d_Y) -> (d_X, d_K) {
            d_K(c, y, x) +=! d_Y(n, c, h, w) * pad(X(n, c, h + y - 1, w + x - 1), 0)
                where y in 0:3, x in 0:3
            d_X(n, c, i, j) +=! pad(d_Y(n, c, i - y + 1, j - x + 1), 0) * K(c, y, x)
                where i in 0:H, j in 0:W
        }""",
    ),
    "max pool": Entry(
        """def f(float(N,C,H,W) X) -> (Y) {
            Y(n, c, h, w) max=! X(n, c, 2 * h + y, 2 * w + x) where y in 0:2, x in 0:2
        }""",
        """def hand(int32(N,C,MID,MID) Y_place, float(N,C,MID,MID) d_Y) -> (d_X) {
            d_X(n, c, 2 * h + y, 2 * w + x) = 2 * y + x == Y_place(n, c, h, w)
                ? d_Y(n, c, h, w) : 0.0 where y in 0:2, x in 0:2
        }""",
    ),
    "average pool": Entry(
        """def f(float(N,C,H,W) X) -> (Y) {
            Y(n, c, h, w) +=! X(n, c, 2 * h + y, 2 * w + x) / 4 where y in 0:2, x in 0:2
        }""",
        """def hand(float(N,C,MID,MID) d_Y) -> (d_X) {
            d_X(n, c, 2 * h + y, 2 * w + x) = d_Y(n, c, h, w) / 4.0 where y in 0:2, x in 0:2
        }""",
    ),
    "cross entropy": Entry(
        """def f(float(N,M) X, int32(N) T) -> (L) {
            mx(n) max=! X(n, m)  s(n) +=! exp(X(n, m) - mx(n))
            L +=! (mx(n) + log(s(n)) - X(n, T(n))) / float(N)
        }""",
        """def hand(float(N,M) X, int32(N) T, float(N) mx, float(N) s, float d_L)
            -> (float(N,M) d_X) {
            d_X(n, m) = d_L / float(N) / s(n) * exp(X(n, m) - mx(n))
            d_X(n, T(n)) += -(d_L / float(N))
        }""",
        more=Costs(statements=1, reads=1, kept=64),
        why="the adjoint of the sum is stored",
    ),
    "batch norm": Entry(
        """def f(float(N,C,P) X, float(C) w, float(C) b) -> (Y) {
            mu(c) +=! X(n, c, p) / float(N * P)
            v(c) +=! (X(n, c, p) - mu(c)) * (X(n, c, p) - mu(c)) / float(N * P)
            Y(n, c, p) = (X(n, c, p) - mu(c)) * rsqrt(v(c) + 1e-5) * w(c) + b(c)
        }""",
        """def hand(float(N,C,P) X, float(C) w, float(C) mu, float(C) v, float(N,C,P) d_Y)
            -> (d_X, d_w, d_b) {
            d_b(c) +=! d_Y(n, c, p)
            a(c) +=! d_Y(n, c, p) * (X(n, c, p) - mu(c))
            d_w(c) = a(c) * rsqrt(v(c) + 1e-5)
            d_X(n, c, p) = w(c) * rsqrt(v(c) + 1e-5) * (d_Y(n, c, p) - d_b(c) / float(N * P)
                - (X(n, c, p) - mu(c)) * a(c) / ((v(c) + 1e-5) * float(N * P)))
        }""",
        more=Costs(statements=1, reads=4, work=4208, kept=64),
        why="adjoints of the statistics are stored, an element a channel",
    ),
    "RMS norm": Entry(
        """def f(float(N,M) X, float(M) w) -> (Y) {
            v(n) +=! X(n, m) * X(n, m) / float(M)
            Y(n, m) = X(n, m) * rsqrt(v(n) + 1e-5) * w(m)
        }""",
        """def hand(float(N,M) X, float(M) w, float(N) v, float(N,M) d_Y) -> (d_X, d_w) {
            d_w(m) +=! d_Y(n, m) * X(n, m) * rsqrt(v(n) + 1e-5)
            a(n) +=! d_Y(n, m) * w(m) * X(n, m)
            d_X(n, m) = rsqrt(v(n) + 1e-5)
                * (d_Y(n, m) * w(m) - a(n) / ((v(n) + 1e-5) * float(M)) * X(n, m))
        }""",
        more=Costs(reads=1, work=1280),
        why="factors of a row stand within its sum; the pass hoists them",
    ),
    "group norm": Entry(
        """def f(float(N,G,D,P) X, float(G,D) w, float(G,D) b) -> (Y) {
            mu(n, g) +=! X(n, g, d, p) / float(D * P)
            v(n, g) +=! (X(n, g, d, p) - mu(n, g)) * (X(n, g, d, p) - mu(n, g)) / float(D * P)
            Y(n, g, d, p) = (X(n, g, d, p) - mu(n, g)) * rsqrt(v(n, g) + 1e-5) * w(g, d) + b(g, d)
        }""",
        """def hand(float(N,G,D,P) X, float(G,D) w, float(N,G) mu, float(N,G) v, float(N,G,D,P) d_Y)
            -> (d_X, d_w, d_b) {
            d_b(g, d) +=! d_Y(n, g, d, p)
            d_w(g, d) +=! d_Y(n, g, d, p) * (X(n, g, d, p) - mu(n, g)) * rsqrt(v(n, g) + 1e-5)
            a(n, g) +=! d_Y(n, g, d, p) * w(g, d)
            c(n, g) +=! d_Y(n, g, d, p) * w(g, d) * (X(n, g, d, p) - mu(n, g))
            d_X(n, g, d, p) = rsqrt(v(n, g) + 1e-5) * (d_Y(n, g, d, p) * w(g, d)
                - a(n, g) / float(D * P)
                - (X(n, g, d, p) - mu(n, g)) * c(n, g) / ((v(n, g) + 1e-5) * float(D * P)))
        }""",
        more=Costs(reads=2, work=262144),
        why="factors of a row stand within its sums; the pass hoists them",
    ),
    "gelu by tanh": Entry(
        """def f(float(N) X) -> (Y) {
            Y(n) = 0.5 * X(n) * (1 + tanh(0.8 * (X(n) + 0.04 * X(n) * X(n) * X(n))))
        }""",
        """def hand(float(N) X, float(N) d_Y) -> (d_X) {
            t(n) = tanh(0.8 * (X(n) + 0.04 * X(n) * X(n) * X(n)))
            d_X(n) = 0.5 * d_Y(n)
                * (1.0 + t(n) + X(n) * (1.0 - t(n) * t(n)) * (0.8 + 0.096 * X(n) * X(n)))
        }""",
        more=Costs(reads=16, work=496),
        why="the tangent is called where it is read; a phase has it in a register",
    ),
    "attention": Entry(
        """def f(float(B,S,E) Q, float(B,T,E) K, float(B,T,D) V) -> (O) {
            R(b, s, t) +=! Q(b, s, e) * K(b, t, e)  mx(b, s) max=! R(b, s, t)
            P(b, s, t) = exp(0.125 * (R(b, s, t) - mx(b, s)))  l(b, s) +=! P(b, s, t)
            A(b, s, t) = P(b, s, t) / l(b, s)  O(b, s, d) +=! A(b, s, t) * V(b, t, d)
        }""",
        """def hand(float(B,S,E) Q, float(B,T,E) K, float(B,T,D) V, float(B,S,T) R, float(B,S) mx,
            float(B,S) l, float(B,S,D) d_O) -> (d_Q, d_K, d_V) {
            A(b, s, t) = exp(0.125 * (R(b, s, t) - mx(b, s))) / l(b, s)
            d_V(b, t, d) +=! d_O(b, s, d) * A(b, s, t)
            a_A(b, s, t) +=! d_O(b, s, d) * V(b, t, d)
            c(b, s) +=! a_A(b, s, t) * A(b, s, t)
            a_R(b, s, t) = (a_A(b, s, t) - c(b, s)) * A(b, s, t) * 0.125
            d_K(b, t, e) +=! a_R(b, s, t) * Q(b, s, e)
            d_Q(b, s, e) +=! a_R(b, s, t) * K(b, t, e)
        }""",
    ),
    "causal attention": Entry(
        """def f(float(B,S,E) Q, float(B,S,E) K, float(B,S,D) V) -> (O) {
            R(b, s, t) +=! Q(b, s, e) * K(b, t, e)
            M(b, s, t) = t <= s ? R(b, s, t) : -inf  mx(b, s) max=! M(b, s, t)
            P(b, s, t) = exp(0.125 * (M(b, s, t) - mx(b, s)))  l(b, s) +=! P(b, s, t)
            A(b, s, t) = P(b, s, t) / l(b, s)  O(b, s, d) +=! A(b, s, t) * V(b, t, d)
        }""",
        """def hand(float(B,S,E) Q, float(B,S,E) K, float(B,S,D) V, float(B,S,S) R, float(B,S) mx,
            float(B,S) l, float(B,S,D) d_O) -> (d_Q, d_K, d_V) {
            A(b, s, t) = t <= s ? exp(0.125 * (R(b, s, t) - mx(b, s))) / l(b, s) : 0.0
            d_V(b, t, d) +=! d_O(b, s, d) * A(b, s, t)
            a_A(b, s, t) +=! d_O(b, s, d) * V(b, t, d)
            c(b, s) +=! a_A(b, s, t) * A(b, s, t)
            a_R(b, s, t) = (a_A(b, s, t) - c(b, s)) * A(b, s, t) * 0.125
            d_K(b, t, e) +=! a_R(b, s, t) * Q(b, s, e)
            d_Q(b, s, e) +=! a_R(b, s, t) * K(b, t, e)
        }""",
    ),
    "attention up to the diagonal": Entry(
        """def f(float(B,S,E) Q, float(B,S,E) K, float(B,S,D) V) -> (O) {
            R(b, s, t) +=! Q(b, s, e) * K(b, t, e)
            mx(b, s) max=! 0.125 * R(b, s, t) where t in 0:s + 1
            P(b, s, t) = exp(0.125 * R(b, s, t) - mx(b, s))
            l(b, s) +=! P(b, s, t) where t in 0:s + 1
            O(b, s, d) +=! P(b, s, t) * V(b, t, d) where t in 0:s + 1
            O(b, s, d) = O(b, s, d) / l(b, s)
        }""",
        """def hand(float(B,S,E) Q, float(B,S,E) K, float(B,S,D) V, float(B,S,D) O, float(B,S,S) R,
            float(B,S) mx, float(B,S) l, float(B,S,D) d_O) -> (d_Q, d_K, d_V) {
            P(b, s, t) = exp(0.125 * R(b, s, t) - mx(b, s))
            a(b, s, d) = d_O(b, s, d) / l(b, s)
            c(b, s) +=! a(b, s, d) * O(b, s, d)
            d_V(b, t, d) +=! a(b, s, d) * P(b, s, t) where s in t:S
            a_P(b, s, t) +=! a(b, s, d) * V(b, t, d)
            a_R(b, s, t) = t <= s ? (a_P(b, s, t) - c(b, s)) * P(b, s, t) * 0.125 : 0.0
            d_K(b, t, e) +=! a_R(b, s, t) * Q(b, s, e)
            d_Q(b, s, e) +=! a_R(b, s, t) * K(b, t, e)
        }""",
        more=Costs(statements=1),
        why="shares of the exponentials and of their sum are put together in a line of its own",
    ),
    "LSTM cell": Entry(
        """def f(float(B,K) X, float(B,M) H, float(B,M) C, float(4,M,K) W, float(4,M,M) U,
            float(4,M) b) -> (H1, C1) {
            G(i, g, m) +=! X(i, k) * W(g, m, k)  G(i, g, m) += H(i, j) * U(g, m, j)
            C1(i, m) = sigmoid(G(i, 0, m) + b(0, m)) * C(i, m)
                + sigmoid(G(i, 1, m) + b(1, m)) * tanh(G(i, 2, m) + b(2, m))
            H1(i, m) = sigmoid(G(i, 3, m) + b(3, m)) * tanh(C1(i, m))
        }""",
        """def hand(float(B,K) X, float(B,M) H, float(B,M) C, float(4,M,K) W, float(4,M,M) U,
            float(4,M) b, float(B,M) C1, float(B,4,M) G, float(B,M) d_H1, float(B,M) d_C1)
            -> (d_X, d_H, d_C, d_W, d_U, d_b) {
            S(i, g, m) = g == 2 ? tanh(G(i, g, m) + b(g, m)) : sigmoid(G(i, g, m) + b(g, m))
            t(i, m) = tanh(C1(i, m))
            a_C(i, m) = d_C1(i, m) + d_H1(i, m) * S(i, 3, m) * (1.0 - t(i, m) * t(i, m))
            d_C(i, m) = a_C(i, m) * S(i, 0, m)
            a_G(i, 0, m) = d_C(i, m) * C(i, m) * (1.0 - S(i, 0, m))
            a_G(i, 1, m) = a_C(i, m) * S(i, 2, m) * S(i, 1, m) * (1.0 - S(i, 1, m))
            a_G(i, 2, m) = a_C(i, m) * S(i, 1, m) * (1.0 - S(i, 2, m) * S(i, 2, m))
            a_G(i, 3, m) = d_H1(i, m) * t(i, m) * S(i, 3, m) * (1.0 - S(i, 3, m))
            d_b(g, m) +=! a_G(i, g, m)
            d_U(g, m, j) +=! a_G(i, g, m) * H(i, j)  d_H(i, j) +=! a_G(i, g, m) * U(g, m, j)
            d_W(g, m, k) +=! a_G(i, g, m) * X(i, k)  d_X(i, k) +=! a_G(i, g, m) * W(g, m, k)
        }""",
        more=Costs(statements=1, reads=11, work=2816),
        why="gates are computed where they are read; a phase has them in registers",
    ),
    "GRU cell": Entry(
        """def f(float(B,K) X, float(B,M) H, float(3,M,K) W, float(3,M,M) U) -> (Y) {
            A(i, g, m) +=! X(i, k) * W(g, m, k)  D(i, g, m) +=! H(i, j) * U(g, m, j)
            R(i, m) = sigmoid(A(i, 0, m) + D(i, 0, m))  Z(i, m) = sigmoid(A(i, 1, m) + D(i, 1, m))
            C(i, m) = tanh(A(i, 2, m) + R(i, m) * D(i, 2, m))
            Y(i, m) = (1 - Z(i, m)) * C(i, m) + Z(i, m) * H(i, m)
        }""",
        """def hand(float(B,K) X, float(B,M) H, float(3,M,K) W, float(3,M,M) U, float(B,3,M) A,
            float(B,3,M) D, float(B,M) d_Y) -> (d_X, d_H, d_W, d_U) {
            R(i, m) = sigmoid(A(i, 0, m) + D(i, 0, m))
            Z(i, m) = sigmoid(A(i, 1, m) + D(i, 1, m))
            C(i, m) = tanh(A(i, 2, m) + R(i, m) * D(i, 2, m))
            a_A(i, 2, m) = d_Y(i, m) * (1.0 - Z(i, m)) * (1.0 - C(i, m) * C(i, m))
            a_A(i, 1, m) = d_Y(i, m) * (H(i, m) - C(i, m)) * Z(i, m) * (1.0 - Z(i, m))
            a_A(i, 0, m) = a_A(i, 2, m) * D(i, 2, m) * R(i, m) * (1.0 - R(i, m))
            a_D(i, 0, m) = a_A(i, 0, m)  a_D(i, 1, m) = a_A(i, 1, m)
            a_D(i, 2, m) = a_A(i, 2, m) * R(i, m)
            d_H(i, m) = d_Y(i, m) * Z(i, m)  d_H(i, j) += a_D(i, g, m) * U(g, m, j)
            d_U(g, m, j) +=! a_D(i, g, m) * H(i, j)
            d_W(g, m, k) +=! a_A(i, g, m) * X(i, k)  d_X(i, k) +=! a_A(i, g, m) * W(g, m, k)
        }""",
        more=Costs(statements=1, reads=2, work=256, kept=1024),
        why="adjoints of the gates are stored",
    ),
    "embedding bag": Entry(
        "def f(float(N,D) E, int32(B,L) I) -> (Y) { Y(b, d) +=! E(I(b, l), d) }",
        """def hand(float(N,D) E, int32(B,L) I, float(B,D) d_Y) -> (float(N,D) d_E) {
            d_E(I(b, l), d) +=! d_Y(b, d)
        }""",
    ),
    "linear recurrence": Entry(
        """def f(float(T,N) A, float(T,N) X, float(N) H0) -> (float(T + 1,N) H) {
            H(0, n) = H0(n)  for t in 0:T { H(t + 1, n) = A(t, n) * H(t, n) + X(t, n) }
        }""",
        """def hand(float(T,N) A, float(T1,N) H, float(T1,N) d_H)
            -> (float(T,N) d_A, float(T,N) d_X, float(N) d_H0) {
            a(T, n) = d_H(T, n)
            for t in 0:T {
                a(T - t - 1, n) = d_H(T - t - 1, n) + a(T - t, n) * A(T - t - 1, n)
            }
            d_X(t, n) = a(t + 1, n) where t in 0:T, n in 0:N
            d_A(t, n) = a(t + 1, n) * H(t, n) where t in 0:T
            d_H0(n) = a(0, n)
        }""",
    ),
    "cosine": Entry(
        """def f(float(N,M) A, float(N,M) B) -> (Y) {
            d(n) +=! A(n, m) * B(n, m)  p(n) +=! A(n, m) * A(n, m)  q(n) +=! B(n, m) * B(n, m)
            Y(n) = d(n) * rsqrt(p(n) * q(n) + 1e-8)
        }""",
        """def hand(float(N,M) A, float(N,M) B, float(N) d, float(N) p, float(N) q, float(N) d_Y)
            -> (d_A, d_B) {
            r(n) = d_Y(n) * rsqrt(p(n) * q(n) + 1e-8)
            c(n) = r(n) * d(n) / (p(n) * q(n) + 1e-8)
            d_A(n, m) = r(n) * B(n, m) - c(n) * q(n) * A(n, m)
            d_B(n, m) = r(n) * A(n, m) - c(n) * p(n) * B(n, m)
        }""",
        more=Costs(statements=1, reads=8, work=256, kept=64),
        why="factors that two adjoints share are computed for both",
    ),
    "distances": Entry(
        """def f(float(N,D) A, float(M,D) B) -> (Y) {
            Y(n, m) +=! (A(n, d) - B(m, d)) * (A(n, d) - B(m, d))
        }""",
        """def hand(float(N,D) A, float(M,D) B, float(N,M) d_Y) -> (d_A, d_B) {
            d_A(n, d) +=! 2.0 * d_Y(n, m) * (A(n, d) - B(m, d))
            d_B(m, d) +=! -2.0 * d_Y(n, m) * (A(n, d) - B(m, d))
        }""",
    ),
    "mean squared error": Entry(
        """def f(float(N,M) X, float(N,M) T) -> (L) {
            L +=! (X(n, m) - T(n, m)) * (X(n, m) - T(n, m)) / float(N * M)
        }""",
        """def hand(float(N,M) X, float(N,M) T, float d_L) -> (d_X, d_T) {
            d_X(n, m) = 2.0 * d_L / float(N * M) * (X(n, m) - T(n, m))
            d_T(n, m) = -d_X(n, m)
        }""",
    ),
    "Huber loss": Entry(
        """def f(float(N) X, float(N) T) -> (L) {
            D(n) = X(n) - T(n)  L +=! abs(D(n)) < 1 ? 0.5 * D(n) * D(n) : abs(D(n)) - 0.5
        }""",
        """def hand(float(N) X, float(N) T, float d_L) -> (d_X, d_T) {
            D(n) = X(n) - T(n)
            d_X(n) = abs(D(n)) < 1.0 ? d_L * D(n) : d_L * sign(D(n))
            d_T(n) = -d_X(n)
        }""",
    ),
    "Kullback-Leibler": Entry(
        "def f(float(N,M) X, float(N,M) P) -> (L) { L +=! P(n, m) * (log(P(n, m)) - X(n, m)) }",
        """def hand(float(N,M) X, float(N,M) P, float d_L) -> (d_X, d_P) {
            d_X(n, m) = -d_L * P(n, m)
            d_P(n, m) = d_L * (1.0 + log(P(n, m)) - X(n, m))
        }""",
        more=Costs(reads=3, work=512),
        why="P / P stays, which says where P is 0",
    ),
    "bilinear": Entry(
        """def f(float(B,I) X, float(O,I,J) W, float(B,J) Z) -> (Y) {
            Y(b, o) +=! X(b, i) * W(o, i, j) * Z(b, j)
        }""",
        """def hand(float(B,I) X, float(O,I,J) W, float(B,J) Z, float(B,O) d_Y) -> (d_X, d_W, d_Z) {
            d_X(b, i) +=! d_Y(b, o) * Z(b, j) * W(o, i, j)
            d_W(o, i, j) +=! d_Y(b, o) * Z(b, j) * X(b, i)
            d_Z(b, j) +=! d_Y(b, o) * X(b, i) * W(o, i, j)
        }""",
    ),
    "Kronecker": Entry(
        "def f(float(I,J) A, float(K,L) B) -> (Y) { Y(i, k, j, l) = A(i, j) * B(k, l) }",
        """def hand(float(I,J) A, float(K,L) B, float(I,K,J,L) d_Y) -> (d_A, d_B) {
            d_A(i, j) +=! d_Y(i, k, j, l) * B(k, l)  d_B(k, l) +=! d_Y(i, k, j, l) * A(i, j)
        }""",
    ),
    "two layers": Entry(
        """def f(float(B,I) X, float(H,I) W, float(H) b, float(O,H) V, float(O) c) -> (Y) {
            Z(n, h) +=! X(n, i) * W(h, i)  R(n, h) = relu(Z(n, h) + b(h))
            Y(n, o) +=! R(n, h) * V(o, h)  Y(n, o) = Y(n, o) + c(o)
        }""",
        """def hand(float(B,I) X, float(H,I) W, float(H) b, float(O,H) V, float(B,H) Z,
            float(B,O) d_Y)
            -> (d_X, d_W, d_b, d_V, d_c) {
            R(n, h) = relu(Z(n, h) + b(h))
            d_c(o) +=! d_Y(n, o)  d_V(o, h) +=! d_Y(n, o) * R(n, h)
            a_R(n, h) +=! d_Y(n, o) * V(o, h)
            a_Z(n, h) = Z(n, h) + b(h) > 0 ? a_R(n, h) : 0.0
            d_b(h) +=! a_Z(n, h)  d_W(h, i) +=! a_Z(n, h) * X(n, i)
            d_X(n, i) +=! a_Z(n, h) * W(h, i)
        }""",
    ),
    "length": Entry(
        "def f(float(N,M) X) -> (Y) { s(n) +=! X(n, m) * X(n, m)  Y(n) = sqrt(s(n)) }",
        """def hand(float(N,M) X, float(N) Y, float(N) d_Y) -> (d_X) {
            a(n) = d_Y(n) / Y(n)  d_X(n, m) = a(n) * X(n, m)
        }""",
        more=Costs(work=272),
        why="a half and its double",
    ),
    "unit length": Entry(
        """def f(float(N,M) X) -> (Y) {
            s(n) +=! X(n, m) * X(n, m)  Y(n, m) = X(n, m) / sqrt(s(n))
        }""",
        """def hand(float(N,M) Y, float(N) s, float(N,M) d_Y) -> (d_X) {
            a(n) +=! d_Y(n, m) * Y(n, m)
            d_X(n, m) = (d_Y(n, m) - a(n) * Y(n, m)) / sqrt(s(n))
        }""",
        more=Costs(reads=2, work=1536),
        why="factors of a row stand within its sum; the pass hoists them",
    ),
    "chain of products": Entry(
        """def f(float(I,J) A, float(J,K) B, float(K,L) C) -> (O) {
            P(i, k) +=! A(i, j) * B(j, k)  O(i, l) +=! P(i, k) * C(k, l)
        }""",
        """def hand(float(I,J) A, float(J,K) B, float(K,L) C, float(I,K) P, float(I,L) d_O)
            -> (d_A, d_B, d_C) {
            d_C(k, l) +=! d_O(i, l) * P(i, k)  a(i, k) +=! d_O(i, l) * C(k, l)
            d_B(j, k) +=! a(i, k) * A(i, j)  d_A(i, j) +=! a(i, k) * B(j, k)
        }""",
    ),
}
