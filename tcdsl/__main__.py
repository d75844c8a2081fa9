"""`python -m tcdsl`: the command `tcdsl`."""

from tcdsl.cli import main

main(prog_name="tcdsl")
