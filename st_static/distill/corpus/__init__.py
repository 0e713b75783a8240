"""From files or a dataset to distinct sentences, a vocabulary, and what the teacher reads."""
