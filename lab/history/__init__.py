"""The history of a broker of the lab: every request and every decision, in order (`Recording`, `Occurrence`)."""
