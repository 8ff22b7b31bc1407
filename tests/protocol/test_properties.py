"""Properties files, of brokers and of clients."""

from eosin.protocol.properties import parse_properties


def test_a_properties_file_is_read_as_java_reads_it() -> None:
    text = "# comment\n! another\n\n  a=1\nb : 2\nc 3\nd = x\\\n    y\ne=\\u0041\\t\\\\\nf\ng=a=b\nh\\ i=j\n"
    assert parse_properties(text) == [
        ("a", "1"),
        ("b", "2"),
        ("c", "3"),
        ("d", "xy"),
        ("e", "A\t\\"),
        ("f", ""),
        ("g", "a=b"),
        ("h i", "j"),
    ]
