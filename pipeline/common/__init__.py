"""Shared by sinks, sources and runners: settings, errors, time limits, progress."""
