"""The command line: parses arguments and prints; each command is a library call."""

# each adds its commands to main
from tcdsl.cli import batch, cache, demo, explain, fmt, grad, machine, text, tune, warm  # noqa: F401
from tcdsl.cli.app import main

__all__ = ["main"]
