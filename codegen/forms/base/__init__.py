"""What all forms stand on: a group's context, memory, expressions, the space of its points."""
