"""What the gateway itself costs: a no-op upstream, a load generator, and each gateway between them in turn."""
