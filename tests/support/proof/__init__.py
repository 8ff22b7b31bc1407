"""The proof as a whole: its stages, what they found, and the one list that ends it.

`prove.py` beside this folder runs them. `results` and `kinds` are the pytest plugin that tells what each test did.
"""
