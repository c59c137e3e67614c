"""Scoring engines: they draw and score the views of a plan and write rows to the run's store."""
