"""Bytes and meaning: frames, message schemas, record batches and error codes. No sockets, files or clocks."""
