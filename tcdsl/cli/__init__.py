"""The command line: parses arguments and prints; each command is a library call."""

from tcdsl.cli import cache, demo, grad, machine, text, tune
from tcdsl.cli.app import main

__all__ = ["cache", "demo", "grad", "machine", "main", "text", "tune"]
