"""Text in, a syntax tree out, and back: places, faults, parser, formatter."""
