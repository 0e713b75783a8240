"""From a folder to the Hub: one commit, which is then loaded as every user would load it."""
