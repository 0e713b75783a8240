"""Scores: MTEB tasks for our models and peers, tables of them, speed.

In comes a model by name; out come mteb's results, tables and figures.
"""
