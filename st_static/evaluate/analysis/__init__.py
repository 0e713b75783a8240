"""Why a model is as good as it is: one module an analysis.

In comes a built model with its stages, or two texts; out come tables and figures.
"""
