"""A text as a module, whatever library its tensors are of."""
