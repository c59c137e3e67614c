"""Patches: what they are, where they lie, and how they become Gaussians (APSE).

Imports `scene` only. Never looks at a victim: whoever makes a patch hands the victim's loss in.
"""
