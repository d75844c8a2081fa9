"""Layers, a family a file."""
