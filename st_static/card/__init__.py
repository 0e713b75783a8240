"""Model cards: `gather.py` of publish gathers the attributes of `CardFacts`, and `render` fills one
of the templates with them: all extend `card.md.jinja`."""
