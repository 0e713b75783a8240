"""Publish a model: write its card, check its folder, and upload it to the Hub.

In comes the folder of a built model with its results; out come its card, a list of the folder's
problems, and a repository on the Hub that was loaded again as a check.
"""
