"""The transaction coordinator: rules (pure), the service around them, and the log that they live in."""
