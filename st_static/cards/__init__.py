"""A model and its results in; its card, and its folder on the Hub, out."""
