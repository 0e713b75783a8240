"""Check a folder before it is published.

In comes a folder; out comes a list of all problems, each with its remedy.
"""
