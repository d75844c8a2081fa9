"""A definition bound to types, ranks, sizes and a machine, and the executables of that."""
