"""Layers over time, each one op: see the text. None is public: `nn.LSTM` and its kin call them."""

from __future__ import annotations

from tcdsl.ops.table import Family

ops = Family(__file__)

rnn_tanh = ops.op("rnn_tanh")
rnn_relu = ops.op("rnn_relu")
lstm = ops.op("lstm")
gru = ops.op("gru")
