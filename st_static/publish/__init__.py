"""A model for others: its card, checks of its folder, and the upload to the Hub.

In comes the folder of a built model with its results; out come its card, a list of what is wrong
with the folder, and a repository on the Hub that was loaded again to see that it works.
"""
