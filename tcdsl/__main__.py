"""`python -m tcdsl`: the command `tcdsl`."""

from importlib import import_module

# by name, as the script in pyproject.toml: this room imports nothing of those that stand on it
import_module("tcdsl.cli").main(prog_name="tcdsl")
