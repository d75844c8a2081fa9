"""The command line: parses arguments and prints; each command is a library call."""
