"""Tensor comprehensions: write a layer as mathematics, get a fast kernel for it."""

__version__ = "0.1.0"
