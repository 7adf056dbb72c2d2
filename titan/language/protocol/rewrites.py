"""Changes that lowering may make, if allowed, to protocols that a target cannot express."""

from __future__ import annotations

from enum import StrEnum


class Rewrite(StrEnum):
    """A change that lowering makes only if asked to, and notes; in the order of trial.

    `TRANSPORT`: bulk and asynchronous copies become copies that count in a wait counter.
    `GROUP`: a wait may retire older stages with its own. `DEPTH`: smaller depths are tried.
    `UNSPECIALISE`: all waves run all roles. `DRAIN_ALL`: a wait for some of the tensor-core work
    waits for all of it.
    """

    TRANSPORT = "transport"
    GROUP = "group"
    DEPTH = "depth"
    UNSPECIALISE = "unspecialise"
    DRAIN_ALL = "drain_all"
