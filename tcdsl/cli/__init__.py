"""The command line: parses arguments and prints; each command is a library call."""

from tcdsl.cli import cache, demo, machine, text, tune
from tcdsl.cli.app import main

__all__ = ["cache", "demo", "machine", "main", "text", "tune"]
