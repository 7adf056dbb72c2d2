"""Arithmetic on two neighbouring columns at once (sm_100a), and corrections by 1 left out.

Rewrites the statements of a role into others with the same numbers, but for: a `scale` and the
`subtract` behind it are rounded once together, and a share of the results of `exp2` comes from a
polynomial (`exp2_both` of the device header), where `titan/codegen/tile/exponentials.py` says so.

A fragment that is fetched from tensor memory, multiplied by a row value and put back to the same
place stays as it is where that value is 1: x times 1 is x. Each warp decides for its own rows.
Source: FlashAttention-4 (packed arithmetic, exponentials by a polynomial, conditional rescaling).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace

from titan.codegen.emit.register_array import RegisterArray
from titan.codegen.emit.statements import (
    SpelledApart,
    SpelledCall,
    SpelledElementwise,
    SpelledFetch,
    SpelledPacked,
    SpelledPackedSum,
    SpelledPut,
    SpelledReduction,
    SpelledStatement,
    SpelledUnlessOne,
)
from titan.codegen.tile.exponentials import SHARES

COLUMNS_AT_ONCE = 32  # of probabilities, which are put into tensor memory by one instruction
AROUND_CORRECTION = SpelledCall("tensor_fence_after"), SpelledCall("tensor_fence_before")
PACKED = ("add", "subtract", "multiply", "scale", "offset")
Statements = list[SpelledStatement]
Arithmetic = SpelledElementwise | SpelledPacked


def packed(statements: Statements, shares: Mapping[str, int]) -> Statements:
    """The statements with packed arithmetic. `shares`: of each value that an `exp2` makes, how
    many of `SHARES` pairs are computed by the polynomial."""
    return _by_rows([_packed(one, shares) for one in _fused(statements)])


def _packed(statement: SpelledStatement, shares: Mapping[str, int]) -> SpelledStatement:
    if isinstance(statement, SpelledReduction) and statement.function == "row_sum":
        (source,) = statement.operands
        return SpelledPackedSum(statement.target, source) if _floats(source) else statement
    if not isinstance(statement, SpelledElementwise) or not _floats(statement.target):
        return statement
    first, *others = statement.operands
    share = shares.get(statement.target.value, 0)
    if statement.function == "exp2" and share and _floats(first):
        return SpelledPacked(
            "exp2", statement.target, statement.operands, share=share, shares=SHARES
        )
    fits = _floats(first) and all(_floats(one) or one.form == "row" for one in others)
    if statement.function not in PACKED or not fits:
        return statement
    return SpelledPacked(statement.function, statement.target, statement.operands, statement.number)


def _floats(array: RegisterArray) -> bool:
    return array.form == "float" and array.type == "f32"


def _fused(statements: Statements) -> Statements:
    """A `scale` in place and the next use of the value, which subtracts a row value, as one."""
    made: Statements = []
    fused: dict[int, str] = {}  # place of a `subtract`, and the number that it multiplies by
    for place, statement in enumerate(statements):
        if place in fused:
            assert isinstance(statement, SpelledElementwise)
            target, operands = statement.target, statement.operands
            made.append(SpelledPacked("scale_subtract", target, operands, fused[place]))
            continue
        if isinstance(statement, SpelledElementwise) and _scales_in_place(statement):
            user = _next_user(statements, place)
            if user is not None:
                fused[user] = statement.number
                continue
        made.append(statement)
    return made


def _scales_in_place(statement: SpelledElementwise) -> bool:
    target = statement.target
    return (
        statement.function == "scale"
        and _floats(target)
        and statement.operands
        == (replace(statement.operands[0], name=target.name, first=target.first, last=target.last),)
    )


def _next_user(statements: Statements, place: int) -> int | None:
    """The `subtract` that is the next to touch what is scaled at a place; None where it is not."""
    scale = statements[place]
    assert isinstance(scale, SpelledElementwise)
    target = scale.target
    for number in range(place + 1, len(statements)):
        statement = statements[number]
        touched = _touched(statement)
        if touched is None:
            return None
        if target.name not in touched:
            continue
        if not isinstance(statement, SpelledElementwise) or statement.function != "subtract":
            return None
        first, second = statement.operands
        same = (first.name, first.form) == (target.name, target.form)
        span = (statement.target.first, statement.target.last) == (target.first, target.last)
        fits = same and span and second.form == "row" and _floats(statement.target)
        return number if fits else None
    return None


def _touched(statement: SpelledStatement) -> set[str] | None:
    """The registers that a statement reads or writes; None where it holds other statements."""
    found: set[str] = set()
    for field in fields(statement):
        value = getattr(statement, field.name)
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, SpelledStatement):
                return None
            if isinstance(item, RegisterArray):
                found.add(item.name)
    return found


def _by_rows(statements: Statements) -> Statements:
    """Arithmetic that ends in a put of pairs, one block of rows after the other: with the sums of
    a block behind its put, its registers are free when the next one is computed."""
    made: Statements = []
    place = 0
    while place < len(statements):
        statement = statements[place]
        begin = len(made)
        if isinstance(statement, SpelledPut) and statement.source.form == "pair":
            while (
                begin and isinstance(made[begin - 1], Arithmetic) and _rows_apart(made[begin - 1])
            ):
                begin -= 1
        if begin == len(made):
            made.append(statement)
            place += 1
            continue
        run, made = [*made[begin:], statement], made[:begin]
        if _array(statement).whole:
            made += _by_columns(run, _array(statement).columns)
            place += 1
            continue
        total = _sum_behind(run, statements[place + 1 :])
        first, last = _blocks(statement)
        for block in range(first, last):
            part = [_of_block(one, block) for one in run]
            if total is not None and block < last - 1:
                part.append(_of_block(statements[place + 1 + total], block))
            made += [SpelledApart(tuple(part))] if block > first else part
        rest = statements[place + 1 :]
        if total is not None:
            rest[total] = _of_block(rest[total], last - 1)
        statements, place = [*rest], 0
    return made


def _by_columns(run: Statements, columns: int) -> Statements:
    """The run for some columns after the other."""
    step = COLUMNS_AT_ONCE if columns % COLUMNS_AT_ONCE == 0 else columns
    made: Statements = []
    for begin in range(0, columns, step):
        part = tuple(_of(one, replace(_array(one), begin=begin, end=begin + step)) for one in run)
        made += [SpelledApart(part)] if begin else part
    return made


def _rows_apart(statement: SpelledStatement) -> bool:
    return isinstance(statement, Arithmetic) and statement.target.form in ("float", "pair")


def _array(statement: SpelledStatement) -> RegisterArray:
    """The registers that a statement is about, by whose blocks of rows it can be divided."""
    if isinstance(statement, SpelledPut):
        return statement.source
    assert isinstance(statement, SpelledElementwise | SpelledPacked | SpelledPackedSum)
    return statement.target


def _blocks(statement: SpelledStatement) -> tuple[int, int]:
    array = _array(statement)
    return array.first, array.last


def _of_block(statement: SpelledStatement, block: int) -> SpelledStatement:
    return _of(statement, replace(_array(statement), first=block, last=block + 1))


def _of(statement: SpelledStatement, array: RegisterArray) -> SpelledStatement:
    """The statement for a part of its registers."""
    if isinstance(statement, SpelledPut):
        return replace(statement, source=array)
    return replace(statement, target=array)  # type: ignore[call-arg]


def _sum_behind(run: Statements, behind: Statements) -> int | None:
    """The place of the sum of what the run computes, if nothing on the way touches either."""
    written = {_array(one).name for one in run}
    for place, statement in enumerate(behind):
        touched = _touched(statement)
        if isinstance(statement, SpelledPackedSum) and statement.source.name in written:
            free = all(statement.target.name not in (_touched(one) or ()) for one in behind[:place])
            same = _blocks(statement) == _blocks(run[-1])
            return place if free and same else None
        if touched is None or touched & written:
            return None
    return None


def unless_one(statements: Statements) -> Statements:
    """Corrections of a fragment in tensor memory with the fences around them, left out where the
    factor is 1."""
    made: Statements = []
    place = 0
    while place < len(statements):
        part = tuple(statements[place : place + 6])
        fences = part[0], part[-1]
        rows = _correction(list(part[1:-1])) if fences == AROUND_CORRECTION else None
        if rows is None:
            made.append(statements[place])
            place += 1
            continue
        made.append(SpelledUnlessOne(rows, part))
        place += len(part)
    return made


def _correction(statements: Statements) -> RegisterArray | None:
    """The row value by which all of a fragment is multiplied in its place in tensor memory."""
    if len(statements) != 4:
        return None
    fetch, multiply, put, wait = statements
    if not (
        isinstance(fetch, SpelledFetch)
        and isinstance(multiply, SpelledElementwise)
        and isinstance(put, SpelledPut)
        and wait == SpelledCall("tensor_put_wait")
    ):
        return None
    kept = {fetch.target.name, multiply.target.name, put.source.name}
    values = [one for one in multiply.operands if one.name in kept]
    rows = [one for one in multiply.operands if one.form == "row" and one.type == "f32"]
    whole = len(kept) == len(values) == len(rows) == 1 and fetch.place == put.place
    whole = whole and all(_floats(one) for one in (multiply.target, *values))
    return rows[0] if whole and multiply.function == "multiply" else None
