"""What all forms for a GPU stand on: kernels, their parameters, the model of traffic."""
