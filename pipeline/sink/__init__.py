"""From a micro-batch to one transaction: routes, leases of partitions, rows and their encoding."""
