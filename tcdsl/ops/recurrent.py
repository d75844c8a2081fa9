"""Layers over time, each one op: see the text. None is public: `nn.LSTM` and its kin call them."""

from __future__ import annotations

from tcdsl.ops.casting import like, lower
from tcdsl.ops.table import Family

ops = Family(__file__)

rnn_tanh = lower(ops.op("rnn_tanh"))
rnn_relu = lower(ops.op("rnn_relu"))
lstm = lower(ops.op("lstm"))
lstm_projected = lower(ops.op("lstm_projected"))
lstm_step = like(2)(ops.op("lstm"))  # one step of a cell, as PyTorch makes it of other ops
gru = like(1)(ops.op("gru"))  # of the state, which is added to
