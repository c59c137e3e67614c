"""Making patches against a victim whose loss is handed in, as a function of pictures.

Owns: expectation over transformation, the regularizers, the loop with its restarts. Does not know
victims, scenes or renderers; nothing here is used by `patching.apse`, which treats every patch as
given. `settings` imports no torch; the other modules do, so import them where they are used.
"""
