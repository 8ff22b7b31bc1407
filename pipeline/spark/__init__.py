"""Sessions of Spark with the settings that pipelines need."""
