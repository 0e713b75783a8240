"""Analyse what makes a model good: one module per analysis, which `analyse` runs in turn.

In comes a built model with its stages, or two texts to explain; out come tables and figures.
"""
