"""A model and its results in; its card, and its folder on the Hub, out.

A card's road is `write_card.py`: plan (`plan_card.py`, before costly imports), facts (`gather.py`),
figures (`card_figures.py`), text (`render.py`, `templates/`), check (`check_card.py`), files. A
model's is `publish.py`: check (`check_folder.py`), a trial in a process of its own
(`load_alone.py`), one commit (`repository.py`), the same trial from the Hub.
"""
