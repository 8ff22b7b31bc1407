"""Topologies of streams groups: what an application says it reads and writes, and what follows from it. Pure."""
