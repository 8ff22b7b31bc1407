"""The network between clients and a broker of the lab: cut, slow, or reset."""
