"""A broker of several machines: what it has beside its logs, and the requests that it passes on to its controller."""
