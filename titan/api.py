"""TITAN from Python: `titan.verify_ptx(text, launch)`.

The functions return findings as the command line shows them and raise nothing for bad input: a
finding with the verdict REFUSED carries the diagnostics.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from titan.verify.model import Finding


def verify_ptx(
    text: str,
    launch: Mapping[str, object] | str | None = None,
    *,
    entry: str | None = None,
    sweep: bool = False,
    path: str = "<ptx>",
) -> list[Finding]:
    """The verdicts on the kernels of a PTX text, one finding each.

    `launch` is what a launch file holds: its text, or the same as a mapping; None where the text
    itself says enough. `entry`: one kernel of the module. `sweep`: other trip counts, too.
    """
    from titan.foundation.source.loading import load_text
    from titan.frontends.launch import read_launch_text
    from titan.frontends.verify_code import CodeOptions, refused, verify_code

    started = time.process_time()
    source, errors = load_text(text, path)
    if source is None:
        return [refused(path, errors, started)]
    description = None
    if launch is not None:
        written = launch if isinstance(launch, str) else json.dumps(launch)
        description, errors = read_launch_text(written, "<launch>")
        if description is None:
            return [refused(path, errors, started)]
    options = CodeOptions(entry=entry, sweep=sweep)
    return list(verify_code(source, description, options, [], started))
