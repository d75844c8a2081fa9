"""Definitions on a GPU."""
