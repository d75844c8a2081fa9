"""Statements that look at neighbours, in vectors: windows, pools, differences."""
