"""The metadata of the cluster: its topics and configs as an image, the log that it comes from, and the seam to it."""
