"""Token ids of texts, a list or an Arrow array: the same as the tokenizer's, but faster."""
