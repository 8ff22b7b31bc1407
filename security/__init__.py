"""Users, credentials, ACLs, and the proof that a peer has to give."""
