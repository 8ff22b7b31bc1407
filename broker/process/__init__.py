"""What the broker has of its machine: memory, file descriptors, time of the event loop, and a stream of log lines."""
