"""The command line: parses arguments and prints; each command is a library call."""

from tcdsl.cli import batch, cache, demo, explain, fmt, grad, machine, text, tune
from tcdsl.cli.app import main

__all__ = ["batch", "cache", "demo", "explain", "fmt", "grad", "machine", "main", "text", "tune"]
