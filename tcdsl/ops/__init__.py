"""The ops of the tensor library: texts, rows of a table, and what the table means."""
