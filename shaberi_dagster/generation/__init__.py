"""From questions to answers."""
