"""Providers: the forms in which servers take chat calls and answer them, one file each."""
