"""One chat call done well: endpoints, client, limiter, retries, journal, and the embedded model."""
