"""Finds a victim by its spec.

Specs: `demo-detector`, `demo-classifier`, `demo-grounder`,
`onnx:PATH?preset=yolox&labels=FILE` (a detector's file), `paligemma:FOLDER`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl

from envelope.victims.names import find_class
from envelope.victims.protocols import Kind, Victim
from scene.errors import InputError

ASSETS = Path(__file__).resolve().parents[2] / "assets" / "victims"
MAKE_DEMO = "run `advscene train-demo` to make it"


@dataclass(frozen=True)
class Entry:
    """One row of the roster. state: 'ready', or one sentence on how to get the victim."""

    name: str
    kind: Kind
    licence: str
    state: str

    @property
    def ready(self) -> bool:
        """Whether the victim can be loaded now."""
        return self.state == "ready"


def list_victims() -> list[Entry]:
    """The victims that can be chosen by name, with their state; nothing heavy is imported."""
    rows = []
    for name, kind in (
        ("demo-detector", "detector"),
        ("demo-classifier", "classifier"),
        ("demo-grounder", "grounder"),
    ):
        there = (ASSETS / name / "config.json").is_file()
        rows.append(Entry(name, kind, "Apache-2.0", "ready" if there else MAKE_DEMO))  # type: ignore[arg-type]
    file_hint = "give a file: onnx:PATH?preset=yolox|nanodet|fastestdet&labels=FILE"
    rows.append(Entry("onnx", "detector", "the file's own", file_hint))
    folder_hint = "give a folder with a transformers checkpoint: paligemma:FOLDER"
    rows.append(Entry("paligemma", "grounder", "Gemma licence for Google's weights", folder_hint))
    return rows


def load_victim(spec: str, label: str | None = None, threads: int = 1) -> Victim:
    """Load the victim that `spec` names.

    label: the class that will be asked for; a closed-vocabulary victim that does not know it is
    refused here, with near names, instead of silently never finding it.
    threads: CPU threads that one prediction may use.
    """
    name, _, query = spec.partition("?")
    family, _, location = name.partition(":")
    options = dict(parse_qsl(query, keep_blank_values=True))
    loader = _LOADERS.get(family)
    if loader is None:
        names = ", ".join(entry.name for entry in list_victims())
        raise InputError(f"there is no victim {spec!r}; the victims are: {names}")
    victim = loader(spec, location, options, threads)
    if label is not None and victim.info.labels:
        find_class(label, victim.info.labels, spec)
    return victim


def _demo(spec: str, location: str, options: dict[str, str], threads: int) -> Victim:
    _refuse_extra(spec, options, ())
    if location:
        raise InputError(f"victim {spec!r}: the demo victims take no path")
    folder = ASSETS / spec
    if not (folder / "config.json").is_file():
        raise InputError(f"the victim {spec} has no weights in {folder}; {MAKE_DEMO}")
    if spec == "demo-grounder":
        from envelope.victims.paligemma import load_paligemma

        return load_paligemma(folder, name=spec, threads=threads)
    if spec == "demo-detector":
        from envelope.victims.demo.detector import load_detector

        return load_detector(folder, threads=threads)
    from envelope.victims.demo.classifier import load_classifier

    return load_classifier(folder, threads=threads)


def _onnx(spec: str, location: str, options: dict[str, str], threads: int) -> Victim:
    from envelope.victims.onnx import OnnxOptions, load_onnx

    _refuse_extra(spec, options, ("preset", "labels", "size", "confidence", "iou"))
    if not location:
        raise InputError(f"victim {spec!r}: wanted a file, as in onnx:model.onnx?preset=yolox")
    return load_onnx(Path(location), OnnxOptions.from_query(options, spec), threads=threads)


def _paligemma(spec: str, location: str, options: dict[str, str], threads: int) -> Victim:
    from envelope.victims.paligemma import load_paligemma

    _refuse_extra(spec, options, ())
    if not location:
        raise InputError(
            f"victim {spec!r}: wanted a folder with a checkpoint, as in paligemma:FOLDER"
        )
    return load_paligemma(Path(location), name=spec, threads=threads)


def _refuse_extra(spec: str, options: dict[str, str], known: tuple[str, ...]) -> None:
    unknown = sorted(set(options) - set(known))
    if unknown:
        wanted = f"it takes: {', '.join(known)}" if known else "it takes none"
        raise InputError(f"victim {spec!r}: unknown option {unknown[0]!r}; {wanted}")


_LOADERS: dict[str, Callable[[str, str, dict[str, str], int], Victim]] = {
    "demo-detector": _demo,
    "demo-classifier": _demo,
    "demo-grounder": _demo,
    "onnx": _onnx,
    "paligemma": _paligemma,
}
