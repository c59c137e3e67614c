"""Ray-traced places whose truth is known: exact cameras, exact surfaces, exact patches.

Owns the small ray tracer (embreex rays, our own shading), the procedural surfaces and the worlds
made of them. It shares no drawing with the Gaussian renderer, so it can judge it. World z is up,
units are metres. Needs the extra `worlds`; nothing at run time of the viewer imports it.
"""
