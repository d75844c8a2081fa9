"""What stands beside a model: its data."""
