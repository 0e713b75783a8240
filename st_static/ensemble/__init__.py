"""Several static models as one.

In come encoders and their weights; out come their vectors side by side, one table for all of them,
or a smaller one distilled from them.
"""
