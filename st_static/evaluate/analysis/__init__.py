"""Analyse what makes a model good: one module per analysis, which `analyse` runs in turn."""
