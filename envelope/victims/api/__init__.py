"""Grounding models behind an OpenAI-compatible address.

`address` says where pictures may be sent, `client` makes one call with a time limit and patience,
`usage` counts, `victim` is the Grounder. The client is the standard library's: one POST per
picture needs no package, and a package's client would bring retries, redirects, proxies and keys
from the environment that nobody asked for.
"""
