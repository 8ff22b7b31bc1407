"""What a broker answers: one handler per API, and what they have in common."""
