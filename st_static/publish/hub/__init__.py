"""From folder to Hub: one commit, then the model is loaded as everybody would."""
