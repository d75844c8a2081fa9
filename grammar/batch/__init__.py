"""A definition with one more index, before the check."""
