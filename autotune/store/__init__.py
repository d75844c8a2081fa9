"""What is known of problems, trials and tuned configs, kept in SQLite."""
