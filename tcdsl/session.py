"""Where pickles of kernels look for what a session is read by, whatever room that code is in."""

from tcdsl.calls.bindings.session import _session
from tcdsl.calls.bindings.settings import Settings

__all__ = ["Settings", "_session"]
