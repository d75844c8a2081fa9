"""The C core that calls kernels: launch table, memory, threads, fork."""
