"""Scores, speed and figures of a model and its peers."""
