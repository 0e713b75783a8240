"""Encoders of other projects, and floors, by the names that an evaluation knows."""
