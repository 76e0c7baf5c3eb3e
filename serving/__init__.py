"""The HTTP service: app, batching, generators, page."""
