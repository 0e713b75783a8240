"""Several static models as one: encoders and weights in; their vectors side by side, one table for
all of them, or a smaller one distilled from them, out."""
