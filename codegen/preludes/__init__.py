"""The text that emitted code stands on, for C and for CUDA."""
