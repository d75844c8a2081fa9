"""The language: text in, checked definitions out."""
