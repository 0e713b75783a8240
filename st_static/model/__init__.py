"""The word table as a sentence-transformers model."""
