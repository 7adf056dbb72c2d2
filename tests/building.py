"""Short words for writing sync programs in tests."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from titan.sync import program as ir
from titan.sync.expression import Constant, Expression, parse_expression

Body = list[ir.Operation]


@cache
def expression(text: str) -> Expression:
    return parse_expression(text)


def e(value: int | str) -> Expression:
    return Constant(value) if isinstance(value, int) else expression(value)


def at(name: str, index: int | str = 0) -> ir.Reference:
    return ir.Reference(name, e(index))


def read(
    buffer: str,
    stage: int | str = 0,
    tile: int | str | None = None,
    part: int | str | None = None,
    proxy: ir.Proxy = ir.Proxy.GENERIC,
) -> ir.Effect:
    part_expression = None if part is None else e(part)
    return ir.Effect(
        buffer, e(stage), False, None if tile is None else e(tile), part_expression, proxy
    )


def write(
    buffer: str,
    stage: int | str = 0,
    tile: int | str | None = None,
    part: int | str | None = None,
    proxy: ir.Proxy = ir.Proxy.GENERIC,
) -> ir.Effect:
    return replace(read(buffer, stage, tile, part, proxy), write=True)


def access(*effects: ir.Effect) -> ir.Access:
    return ir.Access(effects)


def loop(variable: str, stop: int | str, body: Body, start: int | str = 0) -> ir.Loop:
    return ir.Loop(variable, e(start), e(stop), tuple(body))


def program(name: str, roles: list[ir.Role], **declarations: object) -> ir.SyncProgram:
    parts = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in declarations.items()
    }
    target = str(parts.pop("target", "sm_90a"))
    return ir.SyncProgram(name, target, tuple(roles), **parts)  # type: ignore[arg-type]


ASYNC = ir.Proxy.ASYNC
FENCE = ir.Fence(ir.FenceKind.ASYNC)
