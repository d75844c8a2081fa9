"""The syntax tree becomes a checked definition: names, types, ranges, bounds."""
