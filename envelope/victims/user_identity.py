"""What a person's own model is, for the cache of its answers: code, options, networks.

Answers are kept under a hash of everything that can change them. Of code that is

- the factory's module and every module that it imports, and they import, at the top or inside a
  function, as far as they are the person's own: neither Python's, nor installed beside the
  factory's package (`site-packages`), nor this tool's. Their source files are hashed, as they are
  found without running them, so that the hash does not depend on what else was loaded;
- the options, and the content of files that they name;
- the weights of torch networks, and the description of other victims, that the model holds,
  inside lists, dicts and objects too.

Not seen: files that the code opens by itself, and modules imported by a computed name. Such a model
puts its own hash into `info.weights_hash`.
"""

from __future__ import annotations

import ast
import hashlib
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import Any

from envelope.victims.hashes import files_sha256
from envelope.victims.protocols import VictimInfo

_INSTALLED = frozenset({"site-packages", "dist-packages"})
_TOOL = Path(__file__).resolve().parents[2]
_TOOLS_PACKAGES = frozenset({"scene", "patching", "envelope", "app"})
_DEEPEST = 6
_LARGEST = 4096
"""Entries of a container that are looked through: a vocabulary holds no networks."""


def identity(made: Any, module: ModuleType, info: VictimInfo, options: Mapping[str, str]) -> str:
    """Hash of what can change the answers of `made`, which a factory of `module` returned."""
    digest = hashlib.sha256(info.weights_hash.encode())
    for option, text in sorted(options.items()):
        digest.update(f"{option}={text}\n".encode())
        if text and Path(text).is_file():
            digest.update(files_sha256([Path(text)]).encode())
    for name, path in sorted(own_sources(module).items()):
        digest.update(f"{name}\n".encode())
        digest.update(path.read_bytes())
    for place, held in sorted(_held(made), key=lambda pair: pair[0]):
        digest.update(f"{place}\n".encode())
        if isinstance(held, VictimInfo):
            digest.update(f"{held.weights_hash} {sorted(held.settings.items())}".encode())
            continue
        for name, tensor in sorted(held.state_dict().items()):
            digest.update(name.encode())
            digest.update(_bytes(tensor))
    return digest.hexdigest()


def own_sources(module: ModuleType) -> dict[str, Path]:
    """Source files by module name, "" for the factory's own: those that its answers come from."""
    first = getattr(module, "__file__", None)
    if not first:
        return {}
    found = {"": Path(first)}
    package = module.__name__ if hasattr(module, "__path__") else module.__package__ or ""
    top = package.partition(".")[0]
    waiting = [(Path(first), package)]
    while waiting:
        path, package = waiting.pop()
        for name in _imported(path, package):
            if name in found or name == module.__name__:
                continue
            spec = _spec(name)
            if spec is None or not spec.origin or not spec.has_location:
                continue
            origin = Path(spec.origin)
            if not origin.is_file() or not _own(name, origin, top):
                continue
            found[name] = origin
            waiting.append((origin, name if spec.submodule_search_locations else spec.parent or ""))
    return found


def _imported(path: Path, package: str) -> Iterator[str]:
    """Absolute names of all that a source file may import, parents before their children."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):  # compiled, or a variant for another Python
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _with_parents(alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")
                kept = parents[: len(parents) - node.level + 1]
                base = ".".join([*kept, *([base] if base else [])])
            if base:
                yield from _with_parents(base)
                for alias in node.names:  # perhaps a module of that package
                    yield f"{base}.{alias.name}"


def _with_parents(name: str) -> Iterator[str]:
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        yield ".".join(parts[:count])


def _spec(name: str) -> ModuleSpec | None:
    """Where a module is, without importing it or its parents."""
    loaded = getattr(sys.modules.get(name), "__spec__", None)
    if isinstance(loaded, ModuleSpec):
        return loaded
    parent, _, _ = name.rpartition(".")
    if not parent:
        return PathFinder.find_spec(name)
    above = _spec(parent)
    if above is None or above.submodule_search_locations is None:
        return None
    return PathFinder.find_spec(name, list(above.submodule_search_locations))


def _own(name: str, origin: Path, top: str) -> bool:
    """Whether a module is the person's own. top: the package that the factory's module is in."""
    if top and name.partition(".")[0] == top:
        return True
    origin = origin.resolve()
    if origin.is_relative_to(_TOOL) and origin.relative_to(_TOOL).parts[0] in _TOOLS_PACKAGES:
        return False
    standard = Path(sysconfig.get_paths()["stdlib"]).resolve()
    return not (_INSTALLED & set(origin.parts)) and not origin.is_relative_to(standard)


def _held(made: Any) -> Iterator[tuple[str, Any]]:
    """(place, torch network or description of another victim) that a model is or holds."""
    nn_module = sys.modules["torch"].nn.Module if "torch" in sys.modules else ()
    seen: set[int] = set()
    waiting: list[tuple[str, Any, int]] = [("", made, 0)]
    while waiting:
        place, value, depth = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, nn_module):
            yield place, value
            if value is not made:
                continue
        if isinstance(value, VictimInfo):
            if place != ".info":  # its own, which the caller hashes
                yield place, value
            continue
        if depth < _DEEPEST:
            waiting += [(f"{place}{key}", held, depth + 1) for key, held in _parts(value)]


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What a container or object holds, by place; nothing of modules, classes and functions."""
    if isinstance(value, Mapping | list | tuple) and len(value) > _LARGEST:
        return
    if isinstance(value, Mapping):
        for key, held in value.items():
            yield f"[{key!r}]" if isinstance(key, str | int) else f"[{type(key).__name__}]", held
    elif isinstance(value, list | tuple):
        yield from ((f"[{number}]", held) for number, held in enumerate(value))
    elif isinstance(value, MethodType):
        yield "()", value.__self__
    elif not isinstance(value, type | ModuleType | FunctionType) and hasattr(value, "__dict__"):
        yield from ((f".{name}", held) for name, held in vars(value).items())


def _bytes(tensor: Any) -> bytes:
    """Of any dtype, bfloat16 included."""
    import torch

    if not isinstance(tensor, torch.Tensor):  # a network's extra state
        return repr(tensor).encode()
    content: bytes = tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes()
    return content
