"""The slow truth: NumPy, straight from the statements."""
