"""Options that override the sizes of a kernel: `--set`, `--depth`, `--tiles`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., object])
Overrides = tuple[tuple[str, tuple[int, ...]], ...]


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

    name, equals, values = text.partition("=")
    numbers = parse_values(values)
    if not equals or not name.strip() or not numbers:
        raise click.UsageError(f"not a setting of the form NAME=4, NAME=2,3 or NAME=2..5: {text}")
    return name.strip(), numbers
