"""Parts that every room needs: clocks, chance, backoff, work in the background, and files of keys."""
