"""Rows by teams of threads."""
