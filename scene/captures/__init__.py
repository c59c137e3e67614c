"""Posed photos: one reader per format, path -> `scene.capture.Capture`."""
