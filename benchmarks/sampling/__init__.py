"""How long a step's draws take, by kind of row."""
