"""Text and a teacher to a word table."""
