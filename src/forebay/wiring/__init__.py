"""Where implementations meet the protocols they are made for."""
