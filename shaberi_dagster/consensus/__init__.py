"""One answer from several samples: strategies over an `ask` that somebody else makes the calls of."""
