"""Turn files or a dataset into distinct sentences, a vocabulary, and the texts for the teacher."""
