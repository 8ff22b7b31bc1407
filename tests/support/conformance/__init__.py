"""The conformance suite: the same bytes and the same clients against any broker, and a page that sets two side by side.

`recorder` is the pytest plugin that keeps what each case came to, `results` its shape in a file, `page` the rendering,
`python -m conformance` the program behind `make conformance`.
"""
