"""What the lake gives to tools that read files."""
