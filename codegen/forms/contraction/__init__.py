"""Sums of products of two affine accesses, by register tiles."""
