"""What a person asks of a kernel or a machine: a checked run, times, what is missing, the demo."""
