"""Functions that executables of one machine share, and executables bound to them."""
