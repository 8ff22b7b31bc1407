"""One survey of a broker, in slices, which metrics, facts and the console read."""
