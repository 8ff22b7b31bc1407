"""SASL mechanisms, their messages and arithmetic, for the broker's side and the client's: bytes in, a `Step` out."""
