"""Calls on arrays in the memory of a GPU."""
