"""Columns of texts, of any library, as Arrow."""
