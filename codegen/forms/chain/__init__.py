"""A product, passes along its rows and a product of what they leave, block by block of rows."""
