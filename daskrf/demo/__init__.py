"""The demonstration library: invented building blocks and reactions, and a score of their products."""
