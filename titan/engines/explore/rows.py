"""The tables of a flat program as the words that the core reads, by the names of layout.py."""

from __future__ import annotations

from collections.abc import Sequence

from titan.engines.explore.endings import terminates
from titan.engines.explore.layout import COUNTS, RECORDS, TABLES
from titan.engines.explore.tables import Flat
from titan.sync.pipe_order import PipePair, PipeUse, pipe_pairs

Rows = Sequence[int] | Sequence[Sequence[int]]


def counts_of(flat: Flat, closure_operations: int) -> dict[str, int]:
    """The numbers of the program, one for each of `COUNTS`."""
    program = flat.program
    counts = {
        "agents": len(flat.agents), "roles": len(program.roles),
        "barriers": len(flat.barriers), "named": flat.named_count, "cells": len(flat.cells),
        "pools": len(program.pools), "parameters": len(flat.parameters),
        "queues": len(program.queues), "classes": len(flat.classes),
        "variables": flat.variables_max,
        "flight_words": flat.flight_words, "window": flat.window,
        "fixed_words": len(flat.initial), "live_words": len(flat.live),
        "mask_words": len(flat.masks),
        "refuse_exit": int(program.policies.exit_in_flight != "allow"),
        "allow_unobserved": int(program.policies.unobserved_phase == "allow"),
        "path_rule": int(program.policies.fence_rule == "path"),
        "war_fence": int(program.policies.war_fence),
        "assume_init": int(program.policies.barrier_init == "assumed"),
        "follows": int(flat.follows), "terminates": int(terminates(program)),
        "nodes_total": len(flat.nodes), "closure_operations": closure_operations,
        "mark_fields": flat.mark_fields, "domain_ctas": flat.domain_ctas,
    }  # fmt: skip
    counts |= {
        name: flat.offsets.get(name.removeprefix("off_"), 0)
        for name in COUNTS
        if name.startswith("off_")
    }
    assert counts.keys() == set(COUNTS), counts.keys() ^ set(COUNTS)
    return counts


def words_of(flat: Flat) -> dict[str, list[int]]:
    """The words of every table of `TABLES`; a row of a record has a word for each field."""
    program = flat.program
    numbers = {role.name: n for n, role in enumerate(program.roles)}
    agents, roles, first_values = [], [], []
    for agent in flat.agents:
        role = numbers[agent.role.name]
        agents.append([role, agent.member, agent.role.threads, agent.role.cta, flat.entries[role]])
    first = 0
    for number, role_ in enumerate(program.roles):
        names = flat.variables[number]
        symmetric = int(flat.symmetric[number])
        roles.append([first, role_.agents, len(names), len(program.queues), symmetric])
        first += role_.agents
        given = dict(role_.variables)
        row = [given.get(name, 0) for name in names]
        first_values.append(row + [0] * (flat.variables_max - len(row)))
    reads = flat.split_queues
    queues = [
        [
            int(q.ordered),
            int(q.grouped),
            int(q.pipelined),
            int(q.name in reads),
            pair_bits(pipe_pairs(q, program.policies)),
        ]
        for q in program.queues
    ]
    tables: dict[str, Rows] = {
        "code": flat.code, "nodes": [node.words() for node in flat.nodes],
        "effects": flat.effects, "completions": flat.completions, "buffers": flat.buffers,
        "regions": flat.regions, "cell": flat.cells, "barrier": flat.barriers, "queue": queues,
        "agent": agents, "role": roles, "covers": flat.covers,
        "parameter": flat.parameter_rows, "per_sizes": flat.per_sizes,
        "initial": flat.initial, "live": flat.live, "masks": flat.masks,
        "role_queue": flat.role_queue, "first_values": first_values, "outer": flat.outer,
        "classes_table": flat.classes, "variable_class": flat.variable_class,
        "parameter_class": flat.parameter_class, "cell_shift": flat.cell_shift,
        "cell_ancient": flat.cell_ancient, "barrier_shift": flat.barrier_shift,
        "tagged": [int(any(column)) for column in zip(*flat.cell_shift, strict=True)]
        or [0] * len(flat.cells),
        "write_events": flat.write_events, "overwrite_events": flat.overwrite_events,
        "read_events": flat.read_events, "concerned": flat.concerned,
        "cell_domains": flat.cell_domains, "domain": flat.domains, "issuers": [flat.issuers],
    }  # fmt: skip
    assert tables.keys() == TABLES.keys(), tables.keys() ^ TABLES.keys()
    return {name: _flattened(rows, TABLES[name]) for name, rows in tables.items()}


def _flattened(rows: Rows, record: str) -> list[int]:
    """The words of one table, row after row. Rows of a record have its number of fields."""
    words: list[int] = []
    for row in rows:
        if isinstance(row, int):
            words.append(row)
            continue
        assert record not in RECORDS or len(row) == len(RECORDS[record]), (record, row)
        words.extend(row)
    return words


def pair_bits(pairs: Sequence[PipePair]) -> int:
    """Bit 3 * earlier + later of each pair; nine bits further where it is of one region alone."""
    places = {pair.earlier * len(PipeUse) + pair.later + 9 * pair.same for pair in pairs}
    return sum(1 << place for place in places)
