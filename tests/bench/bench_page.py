"""How long the page takes to answer while a sweep runs with the three demo victims.

Two browsers are stood in for by two plain websocket connections in a process of their own, as a
real browser would be. One moves a slider; measured is when the other one is told (the server's
event loop), and when the frustum of the sliders' view has moved (callbacks and the worker).
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

Row = tuple[str, str, str]

BESIDE = "wanted"
VICTIMS = ("demo-detector", "demo-grounder", "demo-classifier")
MOVES = 60
PAUSE_S = 0.35
LIMIT_MS = 200.0
PORT = 18790


def run() -> list[Row]:
    """Rows: what, measured, wanted."""
    from app.scoring import SweepChoice
    from app.session import Session
    from app.viewer import serve

    with tempfile.TemporaryDirectory() as folder:
        session = Session.open(None, Path(folder) / "runs")
        for spec in VICTIMS:
            session.victims.choose(spec)
            session.victims.load(spec)
        session.victims_changed()
        viewer = serve(session, port=PORT, display_budget=20_000, block=False)
        try:
            assert session.scoring is not None
            session.scoring.service.wait(60)
            plan = SweepChoice({"azimuth_deg": 21, "elevation_deg": 21}, 3).plan()
            session.scoring.start(plan)
            time.sleep(3.0)
            before = session.scoring.service.progress().done
            found = _measure(viewer)
            progress = session.scoring.service.progress()
            done, state = progress.done - before, progress.state
        finally:
            viewer.stop()
    working = sum(v.state == "ready" and v.pictures > 0 for v in progress.victims.values())
    return [
        _row("a slider's move reaches the other browser", found["told"]),
        _row("the view's frustum has moved in the other browser", found["moved"]),
        (f"meanwhile scored ({state}, {working} victims at work)", f"{done} pictures", "> 0"),
    ]


def _row(what: str, seconds: list[float]) -> Row:
    ms = sorted(1000 * s for s in seconds)
    p95 = ms[min(len(ms) - 1, int(0.95 * len(ms)))]
    return (
        what,
        f"median {statistics.median(ms):.0f} ms, p95 {p95:.0f} ms",
        f"p95 <= {LIMIT_MS:g} ms",
    )


def _measure(viewer: Any) -> dict[str, list[float]]:
    slider = viewer.panels.sweep.sliders["yaw_deg"]._impl.uuid
    order = json.dumps([viewer.server.get_port(), slider, MOVES, PAUSE_S])
    done = subprocess.run(
        [sys.executable, __file__, order], capture_output=True, text=True, timeout=240, check=True
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _browse(port: int, slider: str, moves: int, pause_s: float) -> dict[str, list[float]]:
    """The browsers' side: move the slider here, watch there."""
    mover, watcher = _connect(port), _connect(port)
    _drain(watcher, 4.0)
    told, moved = [], []
    for number in range(moves):
        _drain(mover, 0.02)
        _drain(watcher, pause_s)
        value = -10.0 + 0.5 * (number % 40)
        start = time.perf_counter()
        _send(mover, {"type": "GuiUpdateMessage", "uuid": slider, "updates": {"value": value}})
        waiting = {"told", "moved"}
        while waiting and time.perf_counter() - start < 10:
            for message in _receive(watcher, 10.0):
                at = time.perf_counter() - start
                kind = message["type"]
                if "told" in waiting and kind == "GuiUpdateMessage" and message["uuid"] == slider:
                    told.append(at)
                    waiting.discard("told")
                elif "moved" in waiting and kind == "CameraFrustumMessage":
                    moved.append(at)
                    waiting.discard("moved")
        if waiting:
            raise RuntimeError(f"no answer within 10 s: {waiting}")
    return {"told": told, "moved": moved}


def _connect(port: int) -> Any:
    import viser
    from websockets.sync.client import connect

    socket = connect(
        f"ws://127.0.0.1:{port}", origin=f"http://127.0.0.1:{port}",
        subprotocols=[f"viser-v{viser.__version__}"], max_size=None, compression=None,
    )  # fmt: skip
    camera = {
        "wxyz": [1.0, 0, 0, 0], "position": [0.0, 0, 0], "fov": 1.0, "near": 0.01, "far": 100.0,
        "image_height": 600, "image_width": 800, "look_at": [0.0, 0, 1],
        "up_direction": [0.0, 0, 1],
    }  # fmt: skip
    _send(socket, {"type": "ViewerCameraMessage", **camera})
    return socket


def _send(socket: Any, message: dict[str, Any]) -> None:
    import msgspec.msgpack

    socket.send(msgspec.msgpack.encode(message))


def _receive(socket: Any, timeout_s: float) -> list[dict[str, Any]]:
    """The messages of the next frame: sizes, then zstd-compressed msgpack, then raw buffers."""
    import msgspec.msgpack
    import zstandard

    raw = socket.recv(timeout=timeout_s)
    size = int.from_bytes(raw[8:16], "little")
    inner = zstandard.ZstdDecompressor().decompress(raw[16 : 16 + size])
    return list(msgspec.msgpack.decode(inner)["messages"])


def _drain(socket: Any, seconds: float) -> None:
    """Read and forget what comes for a while."""
    until = time.perf_counter() + seconds
    while (left := until - time.perf_counter()) > 0:
        try:
            socket.recv(timeout=left)
        except TimeoutError:
            return


if __name__ == "__main__":
    print(json.dumps(_browse(*json.loads(sys.argv[1]))))
