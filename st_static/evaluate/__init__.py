"""How good a model is, and why: benchmarks, comparison with peers, analyses."""
