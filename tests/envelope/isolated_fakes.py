"""Victims for processes of their own: made by functions that another interpreter can import."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np
from envelope_fakes import ColorDetector, ColorGrounder, red_and_blue

from envelope.victims.protocols import Detections
from scene.errors import InputError


class Deadly(ColorDetector):
    """Kills its process at the sight of blue, or hangs, or runs out of memory."""

    def __init__(self, name: str, how: str) -> None:
        super().__init__(name)
        self._how = how

    def predict(self, images: np.ndarray) -> list[Detections]:
        if any(red_and_blue(image)[1].sum() > 20 for image in images):
            if self._how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if self._how == "exit":
                os._exit(3)
            if self._how == "hang":
                time.sleep(60)
            if self._how == "memory":
                raise MemoryError
        print("talks on standard output")
        return super().predict(images)


def deadly(how: str) -> Deadly:
    return Deadly(f"deadly {how}", how)


def grounder() -> ColorGrounder:
    return ColorGrounder()


def refuses() -> Deadly:
    raise InputError("run X to get it")


def dies_loading() -> Deadly:
    os._exit(7)


def changing_settings(file: str) -> Deadly:
    """Its weights stay, a file beside them is the text."""
    from dataclasses import replace

    victim = Deadly("changing", "kill")
    victim.info = replace(victim.info, settings={"setup_hash": Path(file).read_text()})
    return victim


def changing(file: str) -> Deadly:
    """Its weights' hash is the file's text."""
    victim = Deadly("changing", "kill")
    from dataclasses import replace

    victim.info = replace(victim.info, weights_hash=Path(file).read_text())
    return victim


def slow_again(file: str) -> Deadly:
    """Loads at once the first time, in three seconds from then on."""
    if Path(file).exists():
        time.sleep(3)
        Path(file).with_suffix(".again").touch()
    Path(file).touch()
    return Deadly("deadly kill", "kill")
