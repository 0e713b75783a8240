"""A model for others: its card, what a folder must hold, and the Hub."""
