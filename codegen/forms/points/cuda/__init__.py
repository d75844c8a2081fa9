"""The general nest on a GPU."""
