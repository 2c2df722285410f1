"""Whatever turns an answer into a verdict: an LLM, a rule, or a rule that leaves to an LLM what it cannot tell."""
