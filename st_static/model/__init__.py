"""Static models: `model_name` reads one by its name, and `export` writes one as a folder."""
