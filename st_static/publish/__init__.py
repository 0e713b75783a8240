"""A model for others: its card, where a similarity comes from, and the Hugging Face Hub."""
