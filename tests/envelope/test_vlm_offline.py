"""Import and first call of every grounding model in a fresh interpreter without network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from vlm_fakes import MAKERS, save_paligemma2, saved

_CODE = """
import numpy as np
from envelope.victims.registry import list_victims, load_victim
listed = list_victims()
picture = np.zeros((1, 60, 100, 3), np.uint8)
for spec in {specs!r}:
    victim = load_victim(spec)
    answer, = victim.predict(picture, victim.prompt_for("stop sign"))
    print(victim.info.settings.get("family", "paligemma"), answer.status in ("ok", "empty", "malformed"))
remote = load_victim("api:http://127.0.0.1:9/v1?model=m&profile=qwen3-vl")
print(remote.info.settings["profile"], remote.usage.requests)
for name in [one.name for one in listed if one.kind == "grounder" and not one.needs_location]:
    try:
        load_victim(name)
    except Exception as error:
        assert "hf download" in str(error) and type(error).__name__ == "InputError", error
"""


def test_no_look_up_no_telemetry_no_download(
    tmp_path: Path, run_offline: Callable[..., str]
) -> None:
    specs = [f"paligemma:{save_paligemma2(tmp_path / 'paligemma2')}"]
    for name in sorted(MAKERS):
        scale = "&coordinates=1" if name == "lfm2.5-vl" else ""
        specs.append(f"{name}:{saved(name, tmp_path / name)}?size=112&tokens=4{scale}")
    printed = run_offline(_CODE.format(specs=specs), OMP_NUM_THREADS="1").splitlines()
    assert printed == [
        "paligemma True", "internvl3 True", "lfm2.5-vl True", "minicpm-v True", "qwen2.5-vl True",
        "qwen3-vl True", "qwen3-vl 0",
    ]  # fmt: skip
