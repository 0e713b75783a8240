"""A model's card: facts gathered from files and measurements, then Markdown and figures."""
