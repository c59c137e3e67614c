"""Operational envelopes: conditions, victims, outcomes, sweeps, measures, figures.

Imports `patching` and `scene`. Knows nothing of the viewer or the command line.
"""
