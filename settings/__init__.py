"""The settings of a broker: their table, sources, and checks."""
