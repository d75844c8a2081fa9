"""Leaf forms as CUDA kernels: one file per kind, each with the five functions of a lowering."""
