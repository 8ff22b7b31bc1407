"""A whole pipeline on Spark: started, supervised and restarted; and the processes of the examples."""
