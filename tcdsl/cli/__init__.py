"""The command line: parses arguments and prints; each command is a library call."""

# each adds its commands to main
from tcdsl.cli import (  # noqa: F401
    batch,
    cache,
    demo,
    explain,
    fmt,
    grad,
    machine,
    profile,
    text,
    tune,
    warm,
)
from tcdsl.cli.app import main

__all__ = ["main"]
