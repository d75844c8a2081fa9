"""What stands beside a model: its data, and memory for time."""
