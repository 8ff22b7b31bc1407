"""Example pipelines: `eosin pipeline example wordcount | orders`.

Each module has a pipeline, its input, and a function for `eosin pipeline verify --by` that compares input and output.
"""
