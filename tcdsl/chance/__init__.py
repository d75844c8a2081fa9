"""Random numbers: one source a process draws from."""
