"""Pipelines to read and to run: `eosin pipeline example wordcount | orders`.

Each module holds a pipeline, input for it, and what its output must be, computed in plain Python.
"""
