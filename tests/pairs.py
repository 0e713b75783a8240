"""Parameters of a test, two and two, where a pair is too long for a line."""


def pairs(*flat):
    return list(zip(flat[::2], flat[1::2], strict=True))
