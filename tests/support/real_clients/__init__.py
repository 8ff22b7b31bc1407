"""Unmodified public Kafka clients behind one small interface, so that each scenario is written once for all of them."""
