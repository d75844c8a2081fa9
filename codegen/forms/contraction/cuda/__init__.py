"""Contractions on a GPU: tiles in shared memory, tensor cores."""
