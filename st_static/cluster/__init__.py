"""Work on a Ray cluster, and on files in an object store."""
