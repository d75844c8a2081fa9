"""Text of the language where it meets Python: files, constants, names, signatures."""
