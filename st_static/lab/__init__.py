"""Experiments: analyses of what makes a model good, all run by `analyse`, and baselines."""
