"""Gather the facts of a model's card, and write it; `st_static/card` renders it."""
