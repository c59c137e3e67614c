"""Victims: the models that score each render, behind three small protocols.

Owns: the answer values and protocols (`protocols`), finding a victim by its spec (`registry`),
class names (`names`), box grammars (`grammars`), one file per model family (grounding models in
`vlm`, those behind an address in `api`), and the embedded demo models with their pictures and
training (`demo`). A victim never decides success; that is
`envelope.outcome`. Heavy packages are imported only when a victim that needs them is loaded.
"""
