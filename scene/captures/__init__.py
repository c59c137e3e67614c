"""Posed photos: one reader per format, path -> `scene.capture.Capture`."""

from scene.captures.load import load_capture

__all__ = ["load_capture"]
