"""What a checked definition is made of: scalar types, builtins, the typed tree."""
