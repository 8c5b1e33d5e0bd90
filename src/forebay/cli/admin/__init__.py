"""The commands for operators: they speak to a gateway's Admin API."""
