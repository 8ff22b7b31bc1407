"""Records on the command line: lines of input, lines of output, and how far a command has come."""
