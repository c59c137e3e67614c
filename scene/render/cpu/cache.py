"""Compiled kernels on disk, in folders named by a hash of everything that a kernel is made of.

Numba's own cache looks only at the file that a function stands in: an edit in a module that the
function calls leaves the old machine code in use. So every module of kernels gets its own folder

    <user cache>/advscene/kernels/<module>-<hash>/

where the hash covers the module's source, the sources of all modules that it imports from this or
its own package (and theirs), and the versions of numba and llvmlite. Numba itself keys its entries
by CPU. NUMBA_CACHE_DIR, when set, replaces `<user cache>/advscene/kernels`.

Kernels are decorated with `kernel` (or `helper`, for functions that are inlined into kernels)
from this module, never with `numba.njit`: that is what puts them in the right folder.
"""

from __future__ import annotations

import ast
import hashlib
import logging
import os
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba import njit

log = logging.getLogger(__name__)

_PACKAGE = "scene.render.cpu"
_ROOT = Path(__file__).parents[3]  # the folder that holds the package `scene`
_OPTIONS: dict[str, Any] = {
    # nnan and ninf hide NaN: rows that are not finite are made invisible when a scene is packed
    "fastmath": {"contract", "nsz", "arcp", "nnan", "ninf"},
    "error_model": "numpy",
    "boundscheck": False,
    "nogil": True,
    "cache": True,
}


def kernel(function: Callable[..., Any]) -> Any:
    """Compile `function` lazily, without the GIL, cached in its module's folder."""
    return _compiled(function, forceinline=False)


def exact_kernel(function: Callable[..., Any]) -> Any:
    """As `kernel`, every operation rounded by itself, as NumPy and SciPy round."""
    return _compiled(function, forceinline=False, fastmath=False)


def exact_helper(function: Callable[..., Any]) -> Any:
    """As `helper`, for exact kernels."""
    return _compiled(function, forceinline=True, fastmath=False)


def helper(function: Callable[..., Any]) -> Any:
    """As `kernel`, for small functions that are inlined into the kernels that call them."""
    return _compiled(function, forceinline=True)


def cache_root() -> Path:
    """The folder that holds the folders of all modules of kernels."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    if given:
        return Path(given)
    user = os.environ.get("XDG_CACHE_HOME")
    if user:
        base = Path(user)
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    elif os.name == "nt" and os.environ.get("LOCALAPPDATA"):
        base = Path(os.environ["LOCALAPPDATA"])
    else:
        base = Path.home() / ".cache"
    return base / "advscene" / "kernels"


@cache
def source_hash(module: str) -> str:
    """Hash (16 hex digits) of all sources and versions that `module`'s machine code depends on."""
    digest = hashlib.sha256(f"{numba.__version__} {llvmlite.__version__}".encode())
    for name in sorted(_with_imports(module)):
        digest.update(name.encode())
        digest.update(_source_path(name).read_bytes())
    return digest.hexdigest()[:16]


def _compiled(function: Callable[..., Any], forceinline: bool, fastmath: bool = True) -> Any:
    config: Any = numba.config
    before = config.CACHE_DIR  # Numba reads it when a function is decorated, not when it compiles
    config.CACHE_DIR = str(_module_folder(function.__module__))
    try:
        options = _OPTIONS if fastmath else {**_OPTIONS, "fastmath": False}
        return njit(forceinline=forceinline, **options)(function)
    finally:
        config.CACHE_DIR = before


@cache
def _module_folder(module: str) -> Path:
    folder = cache_root() / f"{module.rpartition('.')[2]}-{source_hash(module)}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        folder = Path(tempfile.gettempdir()) / f"advscene-kernels-{os.getpid()}" / folder.name
        log.warning(
            "compiled kernels will not be kept: %s (set XDG_CACHE_HOME to a writable folder)", error
        )
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def _with_imports(module: str) -> set[str]:
    """`module` and what it imports, directly or not, from its own package and from this one."""
    packages = (f"{_PACKAGE}.", f"{module.rpartition('.')[0]}.")
    found: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name in found or not name.startswith(packages) or not _source_path(name).is_file():
            continue
        found.add(name)
        for node in ast.walk(ast.parse(_source_path(name).read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                waiting += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                # what is imported may be a module of a package, or a name in a module
                waiting += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return found


def _source_path(module: str) -> Path:
    return _ROOT.joinpath(*module.split(".")).with_suffix(".py")
