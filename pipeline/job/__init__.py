"""A whole pipeline: topics in, a function of frames, a topic out; started, supervised and restarted."""
