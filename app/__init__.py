"""The product's surfaces: the command line and the viewer. Nothing imports this package."""
