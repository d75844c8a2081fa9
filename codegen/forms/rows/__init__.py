"""Statements that share rows: pointwise, reductions, norms."""
