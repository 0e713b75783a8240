"""How good a model is, and why: the geometry of its vectors."""
