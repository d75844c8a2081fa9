"""A kernel as such, called and described; what is made of it lies above."""
