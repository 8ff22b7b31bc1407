"""Pipelines to read and to run: `eosin pipeline example wordcount | orders`.

Each module holds a pipeline, input for it, and how `eosin pipeline verify --by` compares its output with its input.
"""
