"""From a program and a config to a verified unit: groups, forms, their join."""
