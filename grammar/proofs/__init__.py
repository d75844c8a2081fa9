"""Integers made of sizes, their bounds, and proofs that they are not negative."""
