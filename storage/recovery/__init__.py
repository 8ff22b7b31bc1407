"""From the files that a stop has left to a log: what is trusted, what is scanned, what is cut."""
