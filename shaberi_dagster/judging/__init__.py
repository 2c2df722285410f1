"""From answers to scores by an LLM judge."""
