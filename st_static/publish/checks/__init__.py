"""What must hold of a folder before it is published; each check names all that is wrong."""
