"""Static models: one vector per token, and a mean.

In comes a name (a folder, a Hub id, `wordllama:256`, `glove:FILE`); out comes a `StaticModel`, a
tokenizer with a table [V, D]. `export.py` writes one as a folder that sentence-transformers and
Model2Vec load; `StaticWordEmbedding` is a trainable module of it.
"""
