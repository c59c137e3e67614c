"""Grounding models that read a picture and write a box.

`family` says what differs between families (prompts, grammar, scale, evidence); one file per
family holds its values; `families` is their table. All of that is free of torch, since models
behind an address are read by the same families. `victim` runs a checkpoint through transformers,
`load` gets it from a folder, `white_box` gives the loss for patch making.
"""
