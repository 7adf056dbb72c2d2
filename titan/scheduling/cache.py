"""Results kept in an sqlite file, keyed by the loop, the machine, the request and solver versions.

What comes out of the file is not trusted: a schedule is checked again, evidence of kind `bound` is
derived again, and other evidence has to be signed by this user; anything else is a miss. Hits and
misses are counted in the file, by what the caller says the loop is about: shape of the tiles, type,
target, what is fused.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import sqlite3
from dataclasses import dataclass
from hmac import compare_digest
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from secrets import token_bytes
from types import TracebackType

from titan.foundation.diagnostics.wording import printable
from titan.foundation.kept import DAMAGE, secret
from titan.scheduling.check import check
from titan.scheduling.loop.bounds import bounds
from titan.scheduling.loop.model import Loop
from titan.scheduling.model import Evidence, Schedule
from titan.scheduling.native import recurrence
from titan.scheduling.run import Request, ScheduleRun, run
from titan.scheduling.store import digest
from titan.scheduling.work import Stopwatch

FORMAT = 3
TABLE = """
CREATE TABLE IF NOT EXISTS results (
  key TEXT PRIMARY KEY, made REAL, seconds REAL, explored INTEGER, content TEXT
)
"""
LOOKUPS = """
CREATE TABLE IF NOT EXISTS lookups (
  tile TEXT, dtype TEXT, target TEXT, fusion TEXT, hits INTEGER, misses INTEGER,
  PRIMARY KEY (tile, dtype, target, fusion)
)
"""


@dataclass(frozen=True, slots=True)
class CacheSubject:
    """What a loop is about, for the rates of hits; `fusion` names what stands beside products."""

    tile: str
    dtype: str
    target: str
    fusion: str


@dataclass(frozen=True, slots=True)
class CacheRate:
    """How often loops of a subject were found in the cache, over all its uses."""

    subject: CacheSubject
    hits: int
    misses: int

    @property
    def rate(self) -> float:
        """Hits over look-ups."""
        return self.hits / max(1, self.hits + self.misses)


class Cache:
    """A database file; use it as a context. `hits` and `misses` count this use of it.

    A file that is no database, or cannot be written, is left as it is, and every look-up misses;
    `damage` says why.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.hits = self.misses = 0
        self.database: sqlite3.Connection | None = None
        self.damage = ""

    def __enter__(self) -> Cache:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.database = sqlite3.connect(self.path, timeout=10)
            self.database.execute(TABLE)
            self.database.execute(LOOKUPS)
        except DAMAGE as error:
            self._give_up((getattr(error, "strerror", None) or str(error)).lower())
        return self

    def _give_up(self, damage: str) -> None:
        if self.database is not None:
            self.database.close()
        self.database, self.damage = None, damage

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.database is None:
            return
        try:
            self.database.commit()
        except DAMAGE as damage:
            self._give_up(str(damage))
        else:
            self.database.close()

    def rates(self) -> list[CacheRate]:
        """Hits and misses by subject, as kept in the file."""
        if self.database is None:
            return []
        query = "SELECT * FROM lookups ORDER BY target, tile, dtype, fusion"
        try:
            rows = self.database.execute(query).fetchall()
        except DAMAGE as error:
            self._give_up(str(error))
            return []
        return [CacheRate(CacheSubject(*row[:4]), row[4], row[5]) for row in rows]

    def _count(self, subject: CacheSubject, hit: bool) -> None:
        if self.database is None:
            return
        named = (subject.tile, subject.dtype, subject.target, subject.fusion)
        text = (
            "INSERT INTO lookups VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
            "hits = hits + excluded.hits, misses = misses + excluded.misses"
        )
        try:
            self.database.execute(text, (*named, int(hit), int(not hit)))
            self.database.commit()  # a search that follows must not lock others out
        except DAMAGE as error:
            self._give_up(str(error))

    def run(self, loop: Loop, request: Request, subject: CacheSubject | None = None) -> ScheduleRun:
        """The stored result if it still holds, else a fresh one, stored."""
        begin = Stopwatch()
        key = cache_key(loop, request)
        found = self._look_up(key, loop)
        if subject is not None:
            self._count(subject, found is not None)
        if found is not None:
            self.hits += 1
            schedule, evidence, produced_by, note = found
            spent = begin.seconds
            lower = bounds(loop, recurrence=recurrence)
            return ScheduleRun(
                loop, schedule, evidence, lower, produced_by, spent, cached=True, notes=(note,)
            )
        self.misses += 1
        result = run(loop, request)
        self._keep(key, result)
        return result

    def _look_up(self, key: str, loop: Loop) -> tuple[Schedule, Evidence, str, str] | None:
        if self.database is None:
            return None
        try:
            row = self.database.execute(
                "SELECT content, seconds, explored FROM results WHERE key = ?", (key,)
            ).fetchone()
        except DAMAGE as error:
            self._give_up(str(error))
            return None
        if row is None:
            return None
        try:
            content = json.loads(row[0])
            schedule = Schedule(content["ii"], tuple(content["starts"]), tuple(content["teams"]))
            evidence = Evidence(**content["evidence"])
            produced_by = printable(str(content["produced_by"]))
            seconds, tried = float(row[1]), int(row[2])
            if check(loop, schedule) or not self._believed(key, content, evidence, loop, schedule):
                return None
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError):
            return None
        note = f"cache hit: the search had taken {seconds:.3f} s and explored {tried} candidates"
        return schedule, evidence, produced_by, note

    @staticmethod
    def _believed(
        key: str, content: dict[str, object], evidence: Evidence, loop: Loop, schedule: Schedule
    ) -> bool:
        """Whether evidence may come out of the file: a bound is derived again; what solvers stated,
        or did not find, this user has signed; a proof is kept in certificates alone."""
        if evidence.kind == "bound":
            best = bounds(loop, recurrence=recurrence).best
            known = Evidence("bound", best.ii, f"{best.kind}: {best.detail}")
            return evidence == known and schedule.ii == best.ii
        stated = content.pop("mark", "")
        return evidence.kind != "proof" and compare_digest(str(stated), _mark(key, content))

    def _keep(self, key: str, result: ScheduleRun) -> None:
        if self.database is None or result.schedule is None or result.evidence.kind == "proof":
            return
        evidence = result.evidence
        content = {
            "ii": result.schedule.ii,
            "starts": result.schedule.starts,
            "teams": result.schedule.teams,
            "produced_by": result.produced_by,
            "evidence": {
                "kind": evidence.kind,
                "lower_bound": evidence.lower_bound,
                "detail": evidence.detail,
                "lengths_to": evidence.lengths_to,
                "complete": evidence.complete,
            },
        }
        content["mark"] = _mark(key, content)
        row = (key, result.seconds, explored(result), json.dumps(content))
        try:
            self.database.execute(
                "INSERT OR REPLACE INTO results VALUES (?, strftime('%s', 'now'), ?, ?, ?)", row
            )
        except DAMAGE as error:
            self._give_up(str(error))


def _mark(key: str, content: dict[str, object]) -> str:
    """The signature of this user; where none can be made, one that nobody finds again."""
    try:
        own = secret()
    except OSError:
        own = token_bytes(32)
    text = json.dumps(content, sort_keys=True)
    return hmac.new(own, f"{key}\0{text}".encode(), hashlib.sha256).hexdigest()


def explored(result: ScheduleRun) -> int:
    """What the solvers tried: intervals and solver calls."""
    total = 0
    for outcome in result.outcomes:
        for name in ("intervals_tried", "solver_calls", "steps"):
            value = outcome.statistics.get(name)
            total += value if isinstance(value, int) else 0
    return total


def cache_key(loop: Loop, request: Request) -> str:
    """A digest of everything that decides a result: loop, request, versions of solvers."""
    versions = []
    for package in ("z3-solver", "python-sat", "torch"):
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            versions.append(f"{package} absent")
    content = "\0".join([str(FORMAT), digest(loop), request.key(), *versions])
    return hashlib.sha256(content.encode()).hexdigest()
