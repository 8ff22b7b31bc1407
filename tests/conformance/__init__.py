"""The conformance suite: the same bytes and the same clients against any broker, and a page that sets two side by side.

`recorder` is the pytest plugin that notes the outcome of each case, `outcomes` the form of these in a file, `page` the
rendering, `python -m conformance` the program behind `make conformance`.
"""
