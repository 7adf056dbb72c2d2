"""Verdicts of `titan verify` that an earlier run of the same code has found, for `--cache`.

The key is all that a verdict follows from: the text and path of the kernel file, the kernel of it
with its sizes, the options, and TITAN itself (`code_digest`). Only VERIFIED is kept: what is not
verified is shown with a trace, which is searched again. A row is signed by the user
(`titan/foundation/kept.py`) and compared before it is read.
"""

from __future__ import annotations

import hashlib
import pickle
from dataclasses import replace

from titan.foundation.kept import SignedStore, code_digest
from titan.foundation.verdict import Verdict
from titan.language.kernel.model import Kernel
from titan.verify.model import Finding, VerifyOptions

FORMAT = 1


def key_of(kernel: Kernel, options: VerifyOptions) -> str | None:
    """The key of a verdict; None if the text of the kernel is not known."""
    span = kernel.span
    if span is None or span.source is None:
        return None
    asked = replace(options, save_traces=None, rewrites=frozenset())
    parts = (
        FORMAT,
        code_digest(),
        kernel.path,
        span.source.text,
        kernel.name,
        tuple(kernel.sizes),
        sorted(options.rewrites),
        asked,
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()


class KeptFindings:
    """Findings of earlier runs; `found` counts those that were there."""

    def __init__(self, path: str | None) -> None:
        self.store = SignedStore(path)
        self.found = 0

    def key(self, kernel: Kernel, options: VerifyOptions) -> str | None:
        """`key_of`."""
        return key_of(kernel, options)

    def get(self, key: str | None) -> Finding | None:
        """The finding of an earlier run, without its program."""
        value = self.store.get(key) if key is not None else None
        if value is None:
            return None
        item = pickle.loads(value)  # its signature is ours
        if not isinstance(item, Finding) or item.verdict is not Verdict.VERIFIED:
            return None
        self.found += 1
        return item

    def put(self, key: str | None, finding: Finding) -> None:
        """Keep what is verified."""
        if key is not None and finding.verdict is Verdict.VERIFIED:
            self.store.put(key, pickle.dumps(replace(finding, program=None)))

    @property
    def damage(self) -> str:
        """Why the file keeps nothing; empty where it does."""
        return self.store.damage

    def close(self) -> None:
        """Close the file."""
        self.store.close()
