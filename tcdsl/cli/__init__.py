"""The command line: parses arguments and prints; each command is a library call."""

from tcdsl.cli import cache, machine, text
from tcdsl.cli.app import main

__all__ = ["cache", "machine", "main", "text"]
