"""Reads topics as rows of Spark: plans ranges of offsets, and reads them."""
