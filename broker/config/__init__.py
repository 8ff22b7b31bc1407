"""Settings: the tables of what can be set, where values come from, and how they change while the broker runs."""
