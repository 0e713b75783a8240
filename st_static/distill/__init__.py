"""A teacher and text to a word table: `pipeline.py` runs the stages, `corpus/` has the first."""
