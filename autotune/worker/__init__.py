"""From a config to its time: emitted, compiled, checked and timed in a process of its own."""
