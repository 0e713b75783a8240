"""Scores, speed and figures: `models.py` loads peers, `analysis/` has a file for each analysis."""
