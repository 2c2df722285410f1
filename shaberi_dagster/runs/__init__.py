"""What a run is asked to be, what it is, and what it still takes."""
