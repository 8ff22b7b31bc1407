"""The share coordinator: the states that this broker keeps, by partition of `__share_group_state`."""
