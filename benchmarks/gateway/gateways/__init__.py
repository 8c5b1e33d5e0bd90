"""The gateways that are measured: each can be prepared once and started behind the same upstream."""
