"""Search in texts by their meaning and by their words."""
