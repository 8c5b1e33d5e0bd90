"""What structured output costs, measured on the schemas of the conformance tests."""
