"""What sinks, sources and runners share: settings, errors, time limits, progress."""
