"""The kinds of nests that a group of statements can become."""
