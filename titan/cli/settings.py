"""Options that override the sizes of a kernel (`--set`, `--depth`, `--tiles`), and numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., object])
_PIECE = re.compile(r"\s*-?[0-9]+(\s*\.\.\s*-?[0-9]+)?\s*")
Overrides = tuple[tuple[str, tuple[int, ...]], ...]


class NumberRange(click.FloatRange):
    """A number within bounds; NaN, which no comparison excludes, is in no range."""

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number. Raises click.BadParameter."""
        number = super().convert(value, param, ctx)  # type: ignore[arg-type]  # click: float
        if math.isnan(number):
            self.fail(f"{value} is not in the range {self._describe_range()}.", param, ctx)
        return number


def settings_options(help_text: str, value: str = "VALUES") -> Callable[[Command], Command]:
    """Adds the three options, given to the command as `settings`, `depth` and `tiles`."""
    options = (
        click.option("--depth", metavar=value, help=f"Short for --set depth={value}."),
        click.option("--tiles", metavar=value, help=f"Short for --set tiles={value}."),
        click.option("--set", "settings", metavar=f"NAME={value}", multiple=True, help=help_text),
    )

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def overrides(settings: tuple[str, ...], depth: str | None, tiles: str | None) -> Overrides:
    """The overrides of the three options, `--set` first. Raises click.UsageError."""
    wanted = [*settings]
    wanted += [f"depth={depth}"] if depth is not None else []
    wanted += [f"tiles={tiles}"] if tiles is not None else []
    return tuple(_setting(text) for text in wanted)


def _setting(text: str) -> tuple[str, tuple[int, ...]]:
    """The name and values of `NAME=VALUES`. Raises click.UsageError."""
    from titan.language.kernel.sizes import parse_values
    from titan.language.kernel.table import SWEEP_MAX

    name, equals, values = text.partition("=")
    numbers = parse_values(values)
    if equals and name.strip() and not numbers and all(map(_PIECE.fullmatch, values.split(","))):
        raise click.UsageError(
            f"no number, more than {SWEEP_MAX}, or one of more than 9 digits: {text}"
        )
    if not equals or not name.strip() or not numbers:
        raise click.UsageError(f"not a setting of the form NAME=4, NAME=2,3 or NAME=2..5: {text}")
    return name.strip(), numbers
