"""A tensor that a module trains."""

from tcdsl.tensors.parameter import Parameter

__all__ = ["Parameter"]
