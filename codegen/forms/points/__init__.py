"""Any one statement, point by point: the general nest, gathers, scatters, arg reductions."""
