"""Model cards: facts in, Markdown out.

A fact is an attribute of `CardFacts`. `render` fills a template with them: `card.md.jinja`, which
`recipe.md.jinja`, `ensemble.md.jinja` and `conversion.md.jinja` extend by how a model was made.
`publish/gather.py` gathers the facts.
"""
