"""Seeing into a broker: events, metrics, traces, explanations, HTTP and the console."""
