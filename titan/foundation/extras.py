"""Libraries that some commands need alone: which extra of the project brings one."""

from __future__ import annotations

from importlib.util import find_spec

from titan.foundation.errors import UserError


def brought_by(extra: str) -> str:
    """The command that installs what an extra of pyproject.toml names."""
    return f"pip install 'titan-verify[{extra}]'"


def require(module: str, extra: str, purpose: str) -> None:
    """Raises UserError where a module is not installed; `purpose` names who needs it."""
    if find_spec(module) is None:
        raise UserError(f"{purpose} needs {module}: {brought_by(extra)}")
