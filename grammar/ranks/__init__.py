"""`...` in a definition becomes fixed dimensions, before the check."""
