"""What holds for every test."""

# pytest's hypothesis plugin imports it when the run is over. By then client libraries have left garbage behind, and
# collecting that in the middle of an import fails in CPython 3.11.7 (its issue 106905). So it is imported first.
import hypothesis as hypothesis
