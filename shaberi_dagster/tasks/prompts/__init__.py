"""Templates of prompts, and their hashes."""
