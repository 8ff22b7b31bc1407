"""Membership in a cluster of several machines: channels to the controller, registration, heartbeats, own requests.

Only joined mode imports this room (cluster.md 2).
"""
