"""Exports of the lake for tools that read files."""
