"""How the tables came to be what they are, step by step. A step never uses the tables of today's code."""
