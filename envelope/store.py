"""Scores on disk: one SQLite file per run, one row per score, written as it arrives.

WAL mode, so that readers (the viewer, another process) see complete rows while a sweep writes.
Keys are unique: writing the same score again changes nothing, which is what makes a sweep
resumable after any kind of death. Truth is stored once per view, answers once per score; outcomes
and rates are computed from rows and never stored.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from envelope.condition import AXES
from envelope.rows import (
    SCORE_COLUMNS,
    Row,
    Score,
    ScoreKey,
    View,
    digest,
    score_of,
    score_values,
    view_id,
    view_of,
)
from scene.errors import InputError

__all__ = ["Row", "Score", "ScoreKey", "ScoreStore", "View", "digest", "view_id"]

SCHEMA_VERSION = 1
BUSY_SECONDS = 30.0

_NINE = ", ".join(f"{name} REAL NOT NULL" for name in AXES)
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS views (
  view_id TEXT PRIMARY KEY, geometry TEXT NOT NULL, condition TEXT NOT NULL,
  variant INTEGER NOT NULL, {_NINE}, actual TEXT NOT NULL, observation TEXT NOT NULL,
  observable INTEGER NOT NULL, reason TEXT NOT NULL, patch_hidden INTEGER NOT NULL,
  extrapolated INTEGER NOT NULL, created REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS settings (
  hash TEXT PRIMARY KEY, victim TEXT NOT NULL, kind TEXT NOT NULL, fields TEXT NOT NULL,
  used REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS scores (
  id INTEGER PRIMARY KEY, view_id TEXT NOT NULL, kind TEXT NOT NULL, victim TEXT NOT NULL,
  settings_hash TEXT NOT NULL, label TEXT NOT NULL, prompt TEXT NOT NULL,
  answer_kind TEXT NOT NULL, status TEXT NOT NULL, raw_text TEXT NOT NULL, notes TEXT NOT NULL,
  boxes TEXT NOT NULL, top TEXT NOT NULL,
  confident_box TEXT, confidence REAL, confident_iou REAL, confident_patch_iou REAL,
  placed_box TEXT, placed_confidence REAL, placed_iou REAL,
  error TEXT NOT NULL, tries INTEGER NOT NULL, render_ms REAL, predict_ms REAL,
  origin TEXT NOT NULL, created REAL NOT NULL,
  UNIQUE (view_id, kind, victim, settings_hash)
);
"""


class ScoreStore:
    """The scores of one run. Safe to use from several threads and processes at once."""

    def __init__(self, path: str | Path, read_only: bool = False) -> None:
        """Open, or create, the file. Raises InputError when it is no score file of ours."""
        self.path = Path(path)
        self.read_only = read_only
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        self._known = _Known()
        if read_only and not self.path.is_file():
            raise InputError(f"{self.path}: no such score file")
        try:
            if not read_only:
                with self._writing() as db:
                    _create(db)
            version = (
                self._connection()
                .execute("SELECT value FROM meta WHERE key = 'schema_version'")
                .fetchone()
            )
        except sqlite3.DatabaseError as error:
            raise InputError(f"{self.path}: wanted a score file (SQLite), found {error}") from error
        if version is None or int(version[0]) != SCHEMA_VERSION:
            found = "none" if version is None else version[0]
            raise InputError(
                f"{self.path}: wanted score schema version {SCHEMA_VERSION}, found {found}; open "
                f"it with the version of advscene that wrote it"
            )

    def add_view(self, view: View) -> None:
        """Store a view's truth; a view that is there already stays as it is."""
        seen = view.observation
        values = (
            view.view_id, view.geometry, view.condition, view.nominal.variant,
            *view.nominal.values, json.dumps(view.actual.to_dict()), json.dumps(seen.to_dict()),
            seen.observable, seen.unobservable_because, seen.patch_hidden, seen.extrapolated,
            time.time(),
        )  # fmt: skip
        marks = ",".join("?" * len(values))
        with self._writing() as db:
            db.execute(f"INSERT OR IGNORE INTO views VALUES ({marks})", values)

    def add_settings(
        self, settings_hash: str, victim: str, kind: str, fields: Mapping[str, Any]
    ) -> None:
        """Say what a settings hash stands for and make it the current one of (victim, kind).

        What is kept beside the hashed fields, such as the conventional threshold, is that of now.
        """
        values = (settings_hash, victim, kind, json.dumps(dict(fields), default=str), time.time())
        with self._writing() as db:
            db.execute(
                "INSERT INTO settings VALUES (?,?,?,?,?) "
                "ON CONFLICT(hash) DO UPDATE SET used = excluded.used, fields = excluded.fields",
                values,
            )

    def set_geometry(self, geometry: str) -> None:
        """Say which views belong to the run as it is now (see `View.geometry`)."""
        with self._writing() as db:
            db.execute("INSERT OR REPLACE INTO meta VALUES ('geometry', ?)", (geometry,))

    def add_scores(self, scores: Sequence[Score], view: View) -> None:
        """Store the scores of one view in one transaction.

        A score that is there already stays; only a stored error is replaced by an answer.
        """
        rows = [score_values(score, view.observation) for score in scores]
        names = ", ".join(SCORE_COLUMNS)
        marks = ",".join("?" * len(SCORE_COLUMNS))
        changes = ", ".join(f"{name} = excluded.{name}" for name in SCORE_COLUMNS[4:])
        with self._writing() as db:
            db.executemany(
                f"INSERT INTO scores ({names}) VALUES ({marks}) "
                f"ON CONFLICT(view_id, kind, victim, settings_hash) DO UPDATE SET {changes} "
                f"WHERE scores.status = 'error' AND excluded.status != 'error'",
                rows,
            )

    def geometry(self) -> str | None:
        """The geometry hash of the views that count now; None before any scoring."""
        found = self._connection().execute("SELECT value FROM meta WHERE key = 'geometry'")
        row = found.fetchone()
        return None if row is None else str(row[0])

    def view(self, key: str) -> View | None:
        """One view by its id."""
        found = self._connection().execute("SELECT * FROM views WHERE view_id = ?", (key,))
        row = found.fetchone()
        return None if row is None else view_of(row)

    def views(self, geometry: str | None = None) -> dict[str, View]:
        """All views by id, or those of one geometry hash."""
        db, known = self._connection(), self._known
        with known.lock:
            ids = [row[0] for row in db.execute("SELECT view_id FROM views ORDER BY created")]
            if any(key not in known.views for key in ids):
                for row in db.execute("SELECT * FROM views"):
                    if row["view_id"] not in known.views:
                        known.views[row["view_id"]] = view_of(row)
            found = {key: known.views[key] for key in ids}
        return {k: v for k, v in found.items() if geometry is None or v.geometry == geometry}

    def done(self, with_errors: bool = True) -> set[ScoreKey]:
        """Keys of the stored scores; without errors those count as not done."""
        where = "" if with_errors else " WHERE status != 'error'"
        rows = self._connection().execute(
            f"SELECT view_id, kind, victim, settings_hash FROM scores{where}"
        )
        return {tuple(row) for row in rows}

    def current_settings(self) -> dict[tuple[str, str], str]:
        """(victim, kind) -> the settings hash that was used last."""
        rows = self._connection().execute("SELECT victim, kind, hash FROM settings ORDER BY used")
        return {(row["victim"], row["kind"]): row["hash"] for row in rows}

    def settings(self) -> dict[str, dict[str, Any]]:
        """What each settings hash stands for."""
        rows = self._connection().execute("SELECT hash, fields FROM settings")
        return {row["hash"]: json.loads(row["fields"]) for row in rows}

    def scores(self, view_key: str | None = None, all_settings: bool = False) -> list[Score]:
        """Stored scores, oldest first; of one view when `view_key` is given.

        Only those of the current settings, unless `all_settings`: scores made with other weights,
        thresholds of the victim or another embedding must not be mixed with them.
        """
        if view_key is None:
            found = self._all_scores()
        else:
            query = "SELECT * FROM scores WHERE view_id = ? ORDER BY id"
            found = [score_of(row) for row in self._connection().execute(query, (view_key,))]
        if all_settings:
            return found
        current = self.current_settings()
        return [
            s for s in found if current.get((s.victim, s.kind), s.settings_hash) == s.settings_hash
        ]

    def _all_scores(self) -> list[Score]:
        """Every score; only rows that are new since the last call are read from the file.

        Rows never go, and of those that are there only errors may still change.
        """
        db, known = self._connection(), self._known
        with known.lock:
            query = "SELECT * FROM scores WHERE id > ? OR id IN ({}) ORDER BY id"
            errors = [i for i, s in known.scores.items() if s.answer.status == "error"]
            marks = ",".join(str(int(i)) for i in errors)
            for row in db.execute(query.format(marks), (known.last_score,)):
                known.scores[row["id"]] = score_of(row)
                known.last_score = max(known.last_score, row["id"])
            return [known.scores[i] for i in sorted(known.scores)]

    def rows(self, views: Mapping[str, View] | None = None) -> Iterator[Row]:
        """Stored scores of the current settings with their views, default all views."""
        views = self.views() if views is None else views
        for score in self.scores():
            if score.view_id in views:
                yield Row(views[score.view_id], score)

    def counts(self) -> dict[str, int]:
        """Number of views, scores and errors."""
        db = self._connection()
        (views,) = db.execute("SELECT count(*) FROM views").fetchone()
        (scores,) = db.execute("SELECT count(*) FROM scores").fetchone()
        (errors,) = db.execute("SELECT count(*) FROM scores WHERE status = 'error'").fetchone()
        return {"views": views, "scores": scores, "errors": errors}

    def close(self) -> None:
        """Fold the log into the file and close every thread's connection."""
        with self._lock:
            connections, self._connections = self._connections, []
        for number, connection in enumerate(connections):
            if not self.read_only and number == 0:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.close()
        self._local = threading.local()

    def _connection(self) -> sqlite3.Connection:
        """The calling thread's own connection."""
        found: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if found is None:
            found = self._connect()
            self._local.connection = found
            with self._lock:
                self._connections.append(found)
        return found

    def _connect(self) -> sqlite3.Connection:
        if not self.read_only:
            db = _open(str(self.path), uri=False)
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            return db
        path = self.path.resolve()
        # without a log nobody writes, and nothing is to be left beside the file by a mere reader
        log = path.with_name(f"{path.name}-wal")
        mode = "mode=ro" if log.exists() else "immutable=1"
        return _open(f"{path.as_uri()}?{mode}", uri=True)

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One write transaction."""
        if self.read_only:
            raise InputError(f"{self.path}: the run is opened read-only, nothing can be scored")
        db = self._connection()
        db.execute("BEGIN IMMEDIATE")
        try:
            yield db
        except BaseException:
            db.execute("ROLLBACK")
            raise
        db.execute("COMMIT")


def _open(address: str, uri: bool) -> sqlite3.Connection:
    db = sqlite3.connect(
        address, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, uri=uri
    )
    db.row_factory = sqlite3.Row
    return db


def _create(db: sqlite3.Connection) -> None:
    for statement in _SCHEMA.split(";"):
        if statement.strip():
            db.execute(statement)
    db.execute("INSERT OR IGNORE INTO meta VALUES ('schema_version', ?)", (str(SCHEMA_VERSION),))


class _Known:
    """What has been read from the file already; the file grows and hardly ever changes."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.views: dict[str, View] = {}
        self.scores: dict[int, Score] = {}
        self.last_score = 0
