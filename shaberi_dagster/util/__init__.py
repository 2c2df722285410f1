"""Helpers that know nothing of evaluation: identities, names, progress, ports, permissions, the web servers' guard."""
