"""The server: connections, routing, one handler per API, and the objects that join the other rooms."""
