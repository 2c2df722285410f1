"""What knows nothing of evaluation: identities, names, progress, ports, permissions, the guard of web servers."""
