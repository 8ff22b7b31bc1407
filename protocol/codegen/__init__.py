"""From the declaration of a message to the functions that read and write it."""
