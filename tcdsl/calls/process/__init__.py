"""What a library owes its process: locks after a fork, tables that end, warnings in place."""
