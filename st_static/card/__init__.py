"""Model cards: `render` fills a template, which extends `card.md.jinja`, with `CardFacts`."""
