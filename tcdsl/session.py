"""Where pickles of kernels look for what a session is read by, whatever room that code is in."""

from tcdsl.calls.bindings.session import Settings, _session

__all__ = ["Settings", "_session"]
