"""From text to sentences, words and the sentences that the teacher reads.

In come files or a dataset; out come shards of distinct sentences, a vocabulary with counts, and a
selection of sentences with the words that each was chosen for.
"""
