"""A teacher and text to a word table: the stages of a build.

In comes a `BuildConfig`; `pipeline.py` runs the stages, each of which leaves its files in the work
directory, and exports the last table. `corpus/` holds the stages that need no teacher.
"""
