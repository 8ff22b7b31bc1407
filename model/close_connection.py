"""`CloseConnection`: the reply that is no response."""


class CloseConnection(Exception):
    """Raised by a handler to close the connection, where no response can carry the error (Produce with acks=0,
    storage.md 19): the client then looks for the leader again. It is the reply to a peer, not a fault of the broker."""
