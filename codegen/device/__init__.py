"""A GPU at run time: memory, streams, loaded cubins, launches."""
