"""What the cluster is: its topics and configs as an image, the log that it comes from, and the seam to it."""
