"""Definitions on this machine's cores."""
