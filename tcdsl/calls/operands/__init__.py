"""What callers hand over and get: arrays of any library and numbers, seen without copies."""
