"""Publish a model: write its card, check its folder, upload it, and load it from the Hub."""
