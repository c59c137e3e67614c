"""Posed photos: one reader per format, path -> `scene.capture.Capture`."""

from scene.captures.load import is_capture_file, load_capture
from scene.captures.options import CaptureOptions

__all__ = ["CaptureOptions", "is_capture_file", "load_capture"]
