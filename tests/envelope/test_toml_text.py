from __future__ import annotations

import tomllib

import pytest

from envelope.toml_text import to_toml


def test_what_is_written_is_what_is_read() -> None:
    values = {
        "text": 'a "quoted" \\ back\nslash \u0442\u0435\u043a\u0441\u0442 \U0001f6d1 \x7f',
        "count": 3,
        "small": 1e-7,
        "whole": 2.0,
        "on": True,
        "list": [1.5, -2.0],
        "matrix": [[1, 2], [3, 4]],
        "empty": [],
        "table": {"inner key": 1, "deeper": {"x": [True, False]}, "last": "z"},
        "rows": [{"name": "a", "more": {"y": 1}}, {"name": "b"}],
    }
    assert tomllib.loads(to_toml(values)) == values
    assert isinstance(tomllib.loads(to_toml({"whole": 2.0}))["whole"], float)


def test_none_is_left_out_and_objects_are_refused() -> None:
    assert to_toml({"a": None, "b": 1}) == "b = 1\n"
    with pytest.raises(TypeError, match="object"):
        to_toml({"a": object()})
