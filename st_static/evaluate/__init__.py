"""Scores, speed and figures of our models and of peers: a new peer is a loader in `models.py`, a
new analysis a file in `analysis/`."""
