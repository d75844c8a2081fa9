"""What a kernel is made for: specialisation, config, CPU, GPU."""
