"""Making patches against a victim whose loss is handed in; never used by `patching.apse`."""
