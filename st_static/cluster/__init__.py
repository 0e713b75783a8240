"""Processes of this machine, and of a Ray cluster."""
