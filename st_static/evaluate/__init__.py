"""Scores and speed: MTEB tasks for our models and for peers, tables of them, and figures.

In comes a model by name; out come mteb's results, tables, speeds and figures. A new peer is a
loader in `models.py`, a new analysis a file in `analysis/`.
"""
