"""Encoders of other projects, and floors, by the names that `st-static evaluate` knows."""
