"""Processes: those of this machine, and those of a Ray cluster."""
