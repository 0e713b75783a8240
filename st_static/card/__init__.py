"""What a model's card says: facts in, Markdown out.

A fact is an attribute of `CardFacts`. `render` fills a template with them: `card.md.jinja`, which
`recipe.md.jinja`, `ensemble.md.jinja` and `conversion.md.jinja` extend by what was done to make a
model. `publish/card` finds the facts out.
"""
