"""Plain values to TOML text (the standard library only reads it)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def to_toml(values: Mapping[str, Any]) -> str:
    """TOML text of nested mappings, lists, strings, numbers and booleans; None is left out."""
    lines: list[str] = []
    _write_table(lines, (), values)
    return "\n".join(lines).strip() + "\n"


def _write_table(lines: list[str], path: tuple[str, ...], table: Mapping[str, Any]) -> None:
    present = {key: value for key, value in table.items() if value is not None}
    tables = {key: value for key, value in present.items() if isinstance(value, Mapping)}
    arrays = {key: value for key, value in present.items() if _is_table_array(value)}
    for key, value in present.items():
        if key not in tables and key not in arrays:
            lines.append(f"{_key(key)} = {_value(value)}")
    for key, value in tables.items():
        lines += ["", f"[{'.'.join(map(_key, (*path, key)))}]"]
        _write_table(lines, (*path, key), value)
    for key, rows in arrays.items():
        for row in rows:
            lines += ["", f"[[{'.'.join(map(_key, (*path, key)))}]]"]
            _write_table(lines, (*path, key), row)


def _is_table_array(value: Any) -> bool:
    return (
        isinstance(value, list | tuple)
        and len(value) > 0
        and all(isinstance(row, Mapping) for row in value)
    )


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else json.dumps(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if math.isnan(value) or math.isinf(value):
            return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(v) for v in value) + "]"
    raise TypeError(f"TOML: no text for a {type(value).__name__}")
