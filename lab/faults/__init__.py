"""Scripted faults: rules that lose, delay, repeat and falsify the requests of clients and their answers."""
