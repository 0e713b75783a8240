"""Encode texts, fast.

In come a static model and texts, in memory or in a file; out come their vectors [B, D], in memory
or in a file.
"""
