"""The settings of the whole platform: one frozen tree, read once from a file and the environment."""
