"""Encode texts, fast: texts in memory or in a file in, their vectors [B, D] out."""
