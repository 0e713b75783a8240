"""Encoders of other projects, and baselines, which `st_static.evaluate.models` loads by name."""
