"""Kernels that are made of a kernel: gradients, tangents, batches."""
