"""Sessions of Spark that keep what pipelines rely on."""
