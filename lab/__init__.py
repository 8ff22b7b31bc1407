"""Brokers for tests: in a thread, in a process, as fixtures of pytest. `eosin.testing` is the door to it."""
