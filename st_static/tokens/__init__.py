"""Text to token ids: a tokenizer, and a faster way to the same ids.

In come texts, from Python, Arrow, polars, pandas or datasets; out come their ids, `Ragged`
([B rows] of int32). It imports nothing else of the package.
"""
