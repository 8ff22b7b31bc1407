"""Values that the rooms above share: topics, configuration changes, principals, entries of ACLs, quotas."""
