"""A whole broker in a simulated world: one seed decides the order of everything, and replays it."""
