"""Token ids of texts, a list or an Arrow array: the tokenizer's own, found faster."""
