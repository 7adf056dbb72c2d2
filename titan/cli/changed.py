"""Which files a branch has changed, as git says: `--changed-since REV`.

The working tree is compared with the commit where it branched off REV, so that later commits of REV
do not count. Untracked files count as changed.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path

import click

OPTION = "--changed-since"


def changed_files(revision: str) -> frozenset[str]:
    """Resolved paths of changed and new files. Raises click.BadParameter."""
    from titan.foundation.diagnostics.wording import quoted

    if not revision or revision.startswith("-"):
        raise click.BadParameter("a revision is needed, such as origin/main", param_hint=OPTION)
    top = Path(_git("rev-parse", "--show-toplevel").rstrip("\n"))
    try:
        base = _git("rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}").strip()
    except click.BadParameter:
        text = f"git knows no revision {quoted(revision)}"
        raise click.BadParameter(text, param_hint=OPTION) from None
    with contextlib.suppress(click.BadParameter):  # histories without a common commit
        base = _git("merge-base", base, "HEAD").strip() or base
    names = _git("diff", "--name-only", "-z", "--no-renames", "--no-relative", base, "--")
    new = _git("ls-files", "--others", "--exclude-standard", "--full-name", "-z", "--", ":/")
    found = [*names.split("\0"), *new.split("\0")]
    return frozenset(os.path.realpath(top / name) for name in found if name)


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, check=False)
    except OSError:
        raise click.BadParameter("git is not installed", param_hint=OPTION) from None
    if done.returncode != 0:
        lines = os.fsdecode(done.stderr).strip().splitlines()
        reason = lines[0] if lines else "git did not answer"
        raise click.BadParameter(reason.removeprefix("fatal: "), param_hint=OPTION)
    return os.fsdecode(done.stdout)
