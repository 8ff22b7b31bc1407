"""Nodes that share one broker of the lab: listeners with node ids of their own, and leaders that move between them."""
