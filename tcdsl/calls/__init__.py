"""What happens when a kernel is called."""
