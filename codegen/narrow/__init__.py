"""int32 in kernels for a GPU where it is proved to be enough."""
