"""Experiments: analyses of what makes a model good, which `analyse` runs in turn, and baselines."""
