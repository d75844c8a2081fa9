"""Checked definitions in, compiled kernels out."""
