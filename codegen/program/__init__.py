"""A definition as statements in SSA form, and their rewrites."""
