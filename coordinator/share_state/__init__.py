"""The share coordinator: durable states of share partitions, in `__share_group_state` (KIP-932)."""
