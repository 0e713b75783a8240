"""Showing a model to others: its card, and where a similarity comes from."""
