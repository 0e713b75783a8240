"""Upload a folder to the Hub in one commit, and load it as every user would."""
