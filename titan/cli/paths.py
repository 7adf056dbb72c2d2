"""Paths as arguments: an empty one is refused, and a missing one is answered with a near name.

An empty path is a shell variable without a value. As a path it is the working folder, which nobody
meant to verify or build.
"""

from __future__ import annotations

import os

import click


class GivenPath(click.ParamType[str]):
    """A path that the command itself opens; nothing but the empty one is refused here."""

    name = "path"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        """The path. Raises click.BadParameter."""
        path = str(value)
        if not path:
            self.fail("the path is empty", param, ctx)
        return path


class ExistingPath(click.Path):
    """A path at which something has to be."""

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> str | bytes | os.PathLike[str]:
        """The path. Raises click.BadParameter, with the near name where nothing is there."""
        from titan.foundation.source.loading import near_if_missing

        path = os.fspath(value)
        if not path:
            self.fail("the path is empty", param, ctx)
        hints = near_if_missing(path)
        if hints:
            self.fail("; ".join((f"path '{path}' does not exist", *hints)), param, ctx)
        return super().convert(value, param, ctx)


GIVEN = GivenPath()
