"""Transposed reads of LDS: against their definition lane by lane, and against what they are for."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("numpy")
from titan.isa.waves.transposed_reads import transposed

RANDOM = np.random.default_rng(3)


def by_lanes(rows):
    """As the instruction set says it: a matrix of 4 rows by 16 lanes, each with its column."""
    found = np.zeros((64, 4), np.uint16)
    for first in range(0, 64, 16):
        matrix = [[0] * 16 for _ in range(4)]
        for lane in range(16):
            for number in range(4):
                low, high = rows[first + lane][2 * number : 2 * number + 2]
                matrix[lane // 4][lane % 4 * 4 + number] = int(low) | int(high) << 8
        for lane in range(16):
            for row in range(4):
                found[first + lane, row] = matrix[row][lane]
    return found.view(np.uint8).reshape(64, 8)


def test_it_is_the_transposition_of_four_rows():
    for _ in range(5):
        rows = RANDOM.integers(0, 256, (64, 8), np.uint8)
        assert (transposed(rows, "ds_read_b64_tr_b16") == by_lanes(rows)).all()


def test_two_of_them_load_an_operand_of_a_product():
    """The 32 x 16 operand of a product, kept by columns: a lane has eight numbers of one row, of
    columns 0 to 7 or 8 to 15. The first read brings four of them, the second one four (CDNA4 ISA,
    11.4)."""
    kept = RANDOM.integers(0, 65536, (16, 32)).astype(np.uint16)  # [along the contraction, row]
    halves = []
    for half in range(2):
        addressed = np.zeros((64, 4), np.uint16)
        for lane in range(64):
            along = lane // 32 * 8 + half * 4 + lane % 16 // 4
            row = lane % 32 // 16 * 16 + lane % 4 * 4
            addressed[lane] = kept[along, row : row + 4]
        read = transposed(addressed.view(np.uint8).reshape(64, 8), "ds_read_b64_tr_b16")
        halves.append(read.view(np.uint16))
    operand = np.concatenate(halves, axis=1)
    for lane in range(64):
        assert (operand[lane] == kept[lane // 32 * 8 : lane // 32 * 8 + 8, lane % 32]).all()


def test_bytes_have_eight_rows_of_two_lanes():
    for _ in range(5):
        rows = RANDOM.integers(0, 256, (64, 8), np.uint8)
        found = transposed(rows, "ds_read_b64_tr_b8")
        for lane in range(64):
            group, column = lane // 16 * 16, lane % 16
            for row in range(8):
                assert found[lane, row] == rows[group + 2 * row + column // 8, column % 8]
