"""A built model for others: what its folder must hold, and the Hugging Face Hub."""
