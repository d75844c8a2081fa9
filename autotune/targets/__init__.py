"""What can be tuned: definitions on the CPU and on GPUs."""
