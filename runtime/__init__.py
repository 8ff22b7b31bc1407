"""What every room needs around its own work: clocks, chance, backoff, and work in the background."""
