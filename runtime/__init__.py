"""Parts that every room needs: clocks, chance, backoff, and work in the background."""
