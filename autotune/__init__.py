"""Which configuration of a kernel is fastest here."""
