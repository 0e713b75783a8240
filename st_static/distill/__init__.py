"""A teacher and text to a word table: the stages of a build.

In comes a `BuildConfig`; `pipeline.py` runs the stages, each a function of its own module, and
exports the last table. A stage leaves its files in the work directory, which `stages.py`
knows. `corpus/` holds the stages that need only the teacher's tokenizer.
"""
