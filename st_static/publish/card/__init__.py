"""A model's card.

`gather` collects facts from files and measurements, `render` turns them into Markdown by the
templates here, `figures` draws them, and `write_card` does all of it. To change what a card says,
change `card.md.jinja`; a new fact is an attribute of `CardFacts`, which `gather` fills.
"""
