"""The CPU back end: Numba kernels on explicit 16-wide vectors, worked by threads of our own.

`records` documents the data layouts, `simd*` emit vector instructions, `cache` keeps the machine
code, `renderer` puts the stages together. Import it lazily: it brings in Numba.
"""
