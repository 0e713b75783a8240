"""Checks of a folder before it is published.

In comes a folder; out comes a list of all problems, each with what to do about it.
"""
