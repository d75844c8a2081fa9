"""The gradient: the vector-Jacobian product of a definition, as a definition."""
