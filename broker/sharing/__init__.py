"""Share groups at the leaders of their partitions (KIP-932): share partitions, share sessions, fetches of both."""
