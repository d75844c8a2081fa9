"""Rows in vectors and tasks."""
