"""From bytes of a connection to frames, headers and messages, and back."""
