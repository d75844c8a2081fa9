"""`for` loops on a GPU: launches repeated for every turn, in the simulator."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.harness import problem
from tests.codegen.loops.test_loops import CUMSUM, EDIT, LSTM, RNN, VITERBI, floats, numbers
from tests.cusim.harness import differential

pytestmark = pytest.mark.cusim

TURNING = "def f(float(N) A) -> (S) { for t in 0:N { S(t, j) = A(j) where j in 0:t+1 } }"
STATE = """def f(float(T,N) A) -> (S) {
    S(i) = 1.0 where i in 0:N
    for t in 0:T { S(i) = S(i) * 2 + A(t, i) }
}"""


@pytest.mark.parametrize("turns", [0, 3])
def test_rnn(turns: int) -> None:
    differential(problem(RNN, floats(turns, 3, 5), floats(3, 5), floats(5, 5)))


@pytest.mark.wide
def test_lstm() -> None:
    args = (floats(2, 3, 4), floats(24, 4), floats(24, 6), floats(3, 6), floats(3, 6))
    differential(problem(LSTM, *args), exact=(True,))


@pytest.mark.wide
def test_dynamic_programming() -> None:
    differential(problem(EDIT, np.array([1, 2, 3], np.int32), np.array([1, 3, 3, 4], np.int32)))
    differential(problem(VITERBI, numbers(4, 5), numbers(5, 5)), exact=(False,))


def test_scans_and_state() -> None:
    differential(problem(CUMSUM, numbers(7, 5)))
    differential(problem(TURNING, numbers(6)))
    for turns in (0, 3):
        differential(problem(STATE, numbers(turns, 6)), exact=(False,))
