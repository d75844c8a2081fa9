"""Weight gradients of convolutions."""
