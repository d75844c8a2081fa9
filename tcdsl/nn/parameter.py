"""A tensor that a module trains, and one that it keeps."""

from tcdsl.tensors.parameter import Buffer, Parameter

__all__ = ["Buffer", "Parameter"]
