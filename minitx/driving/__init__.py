"""A small driving world: traffic from a seed, reasoning that can be checked, and the path that follows."""
