"""The headlines of `elected.py`: who has not synchronised with whom."""

from __future__ import annotations

from titan.foundation.diagnostics.wording import quoted


def headline_of(what: str, name: str, threads: int, verb: str) -> str:
    """The headline of a finding: what was done to the buffer, by how many threads."""
    buffer = quoted(name)
    return {
        "copy": f"one thread {verb} {buffer}, which {threads} threads write, and they do not "
        "synchronise in between",
        "overwrite": f"one thread starts what overwrites {buffer}, which {threads} threads "
        "have accessed, and they do not synchronise in between",
        "use by all": f"{threads} threads together start what reads {buffer}, of which "
        "each has written a part, and they do not synchronise in between",
        "overwrite by all": f"{threads} threads together start an operation that overwrites "
        f"{buffer}, of which each has accessed a part, and they do not synchronise in between",
        "store": f"{threads} threads overwrite {buffer} after one of them has waited for what used "
        "it, and they do not synchronise in between",
        "load": f"{threads} threads read {buffer} after one of them has waited for it, and they do "
        "not synchronise in between",
        "arrival": f"one thread arrives for {threads} that have accessed {buffer}, and they do not "
        "synchronise before",
        "own store": f"one thread overwrites {buffer}, which {threads} threads have accessed, and "
        "they do not synchronise in between",
        "own load": f"one thread reads {buffer}, which {threads} threads write, and they do not "
        "synchronise in between",
        "own use": f"{threads} threads use {buffer}, which one of them alone has accessed, and "
        "they do not synchronise in between",
        "late": f"{threads} threads fence their accesses to {buffer}, and do not synchronise "
        "before an engine uses it",
        "map": f"one thread uses the tensor map {buffer}, which {threads} threads write, and they "
        "do not synchronise in between",
        "release": f"one thread releases the tensor map {buffer} for {threads} that have written "
        "it; each releases its own stores",
        "fence": f"one thread fences for {threads} that have accessed {buffer}; each fences its "
        "own accesses",
        "use": f"{threads} threads use {buffer}, which one of them has initialised, and they do "
        "not synchronise in between",
        "taken": f"{threads} threads use {buffer} after one warp has allocated columns, and they "
        "do not synchronise in between",
        "freed": f"one warp frees columns while {threads} threads use {buffer}: they do not "
        "synchronise in between",
    }[what]
