"""Who may do what: users, credentials, ACLs, and what a peer has to prove."""
