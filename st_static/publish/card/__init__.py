"""Finding out what a model's card says, and writing it; `st_static/card` words it."""
