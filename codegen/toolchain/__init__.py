"""Text becomes cached machine code: C compilers, NVRTC, the folders of both."""
