"""The broker's side of transactions: verification of writes, markers, order of requests, and what hangs or is late."""
