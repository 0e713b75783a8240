"""The commands of `st-static`: one module each, a thin layer over the functions of the rooms."""
