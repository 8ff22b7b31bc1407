"""One module per API: every version of its messages, declared once."""
