"""Chat calls: endpoints, client, limiter, retries, prices, and the embedded model."""
