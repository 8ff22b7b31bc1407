"""The verdict: whether an application's output is its input's, once, by what is in the logs (`exactly_once`)."""
