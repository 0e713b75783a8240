"""Static models: one vector per token, and a mean. `model_name` reads one by its name as a
`StaticModel`, and `export` writes one as a folder."""
