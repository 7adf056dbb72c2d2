"""Tensors of many gigabytes: clang's code reads and writes them where they are.

The memory is virtual: what is read is a function of its place, and what is written is kept. One
work-group of a launch runs on the machine of waves. That a product of 32 bits would show is seen
where the device header computes with one.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.emit.hip_kernels import HEADER, make, needs_clang, shape
from titan.codegen.tile.dtypes import decode
from titan.codegen.tile.load import read_tile
from titan.foundation.resources import root
from titan.foundation.source.span import Source
from titan.isa.simt.launch import Launch, LaunchParameter
from titan.isa.simt.outcome import Ending
from titan.isa.waves.contents import Contents
from titan.isa.waves.machine import WaveMachine
from titan.sync.expression import evaluate, parse_expression
from titan.validate.hip.gcn import assembled

pytestmark = needs_clang
APART = 1 << 40
SMALL = np.array([0x0000, 0x3F80, 0xBF80, 0x3F00, 0x4000, 0xBF00, 0x3E80], np.uint16)  # bf16


def patterns(places):
    """The bits of the elements that begin at these bytes of a tensor."""
    mixed = places.astype(np.uint64) // np.uint64(2) * np.uint64(0x9E3779B97F4A7C15)
    return SMALL[(mixed >> np.uint64(40)).astype(np.int64) % len(SMALL)]


def numbers(first, rows, columns, row_elements):
    """The tile whose first element is the given one."""
    places = first + np.arange(rows)[:, None] * row_elements + np.arange(columns)
    return decode(patterns(2 * places), "bf16").astype(np.float64)


class Virtual(Contents):
    """Inputs whose bytes are a function of their place, outputs as a dictionary by place."""

    def __init__(self, sizes, outputs):
        super().__init__([])
        self.sizes, self.outputs, self.written = sizes, outputs, {}

    def read(self, places, size):
        found = np.zeros((len(places), size), np.uint8)
        for lane in np.nonzero(places >= 0)[0]:
            tensor, place = divmod(int(places[lane]), APART)
            assert place + size <= self.sizes[tensor], hex(int(places[lane]))
            first = place // 2 * 2
            bits = patterns(np.arange(first, place + size + 1, 2)).view(np.uint8)
            found[lane] = bits[place - first : place - first + size]
        return found

    def write(self, places, rows):
        for lane in np.nonzero(places >= 0)[0]:
            tensor, place = divmod(int(places[lane]), APART)
            assert tensor in self.outputs and place + rows.shape[1] <= self.sizes[tensor]
            for at in range(0, rows.shape[1], 2):
                self.written[tensor, (place + at) // 2] = rows[lane, at : at + 2].tobytes()


def run_group(made, parameters, group):
    """What one work-group writes: element numbers of the output, and their values."""
    manifest = made.emitted.manifest
    code = assembled(made.emitted.files, manifest)
    names = [item["name"] for item in manifest["tensors"]]
    sizes = {
        at + 1: 2 * int(np.prod([evaluate(parse_expression(one), parameters)
                                 for one in tensor["shape"]], dtype=object))
        for at, tensor in enumerate(manifest["tensors"])
    }  # fmt: skip
    outputs = {at + 1 for at, tensor in enumerate(manifest["tensors"]) if tensor["output"]}
    given = [
        LaunchParameter(((names.index(item["tensor"]) + 1) * APART).to_bytes(8, "little"))
        if item["kind"] == "pointer"
        else LaunchParameter(parameters[item["name"]].to_bytes(4, "little"))
        for item in manifest["arguments"]
    ]
    for text in manifest["constraints"]:
        assert evaluate(parse_expression(text), parameters), text
    grid = evaluate(parse_expression(manifest["launch"]["grid"]), parameters)
    launch = Launch(
        None, (grid, 1, 1), (manifest["launch"]["block"], 1, 1),
        dynamic_shared_bytes=manifest["launch"]["dynamic_shared_bytes"], parameters=tuple(given),
    )  # fmt: skip
    contents = Virtual(sizes, outputs)
    kernel = next(one for one in code.kernels if one.name == manifest["entry"])
    outcome = WaveMachine(code, kernel, launch, group, 5_000_000, contents=contents).run().outcome
    assert outcome.ending is Ending.FINISHED, outcome.reason
    return {
        place: float(decode(np.frombuffer(bits, np.uint16), "bf16")[0])
        for (_, place), bits in contents.written.items()
    }


def product_is_right(made, sizes, row, column):
    """The tile of C that begins at a row and a column, of 128 x 64 elements."""
    grid_columns = -(-sizes["N"] // 64)
    found = run_group(made, sizes, row // 128 * grid_columns + column // 64)
    rows, columns = min(128, sizes["M"] - row), min(64, sizes["N"] - column)
    left = numbers(row * sizes["K"], rows, sizes["K"], sizes["K"])
    right = numbers(column * sizes["K"], columns, sizes["K"], sizes["K"])
    meant = left @ right.T
    wanted = {
        (row + i) * sizes["N"] + column + j: meant[i, j]
        for i in range(rows)
        for j in range(columns)
    }
    assert set(found) == set(wanted)
    return all(abs(found[at] - wanted[at]) <= 0.01 * abs(wanted[at]) + 0.05 for at in wanted)


FAR = {"M": 2**23 - 5, "N": 2**12 + 8, "K": 512}  # A has 8 GiB, C 64 GiB


def gemm(target="gfx942"):
    text = (root("protocols") / "tiles" / "gemm_gfx942.yaml").read_text()
    return read_tile(Source("tile.yaml", text.replace("columns: 128", "columns: 64")), target)


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_the_last_rows_of_a_product_of_many_gigabytes(target):
    made = make(gemm(target), shape(2))
    row, column = (FAR["M"] - 1) // 128 * 128, (FAR["N"] - 1) // 64 * 64
    assert product_is_right(made, FAR, row, column)
    assert product_is_right(made, FAR, 2**21, 64)  # byte 2^31 of A


def test_a_product_of_32_bits_in_the_header_is_seen():
    made = make(gemm(), shape(2))
    wide = "static_cast<u64>(static_cast<long long>(row) * static_cast<long long>(row_bytes));"
    short = made.edited(wide, "static_cast<u64>(static_cast<u32>(row) * row_bytes);", HEADER)
    assert not product_is_right(short, FAR | {"N": 64}, (FAR["M"] - 1) // 128 * 128, 0)


def attention(first):
    """Attention to the keys from number `first` on, of which the last tile is a part."""
    text = (root("protocols") / "tiles" / "attention_forward_gfx942.yaml").read_text()
    text = text.replace("j * columns, 0]", "first + j * columns, 0]")
    text = text.replace("j * columns + column < keys", "first + j * columns + column < keys")
    text = text.replace(
        "(keys + columns - 1) // columns", "(keys - first + columns - 1) // columns"
    )
    return text.replace("keys: any", f"keys: any, first: {first}")


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
@pytest.mark.parametrize("bits", [31, 32, 33])
def test_attention_whose_loop_goes_on_beyond_a_power_of_two_of_bytes(target, bits):
    first = 2 ** (bits - 8) - 40  # rows of 256 bytes; the loop passes the power within a tile
    tile = read_tile(Source("tile.yaml", attention(first)), target)
    sizes = {"heads": 3, "queries": 64, "keys": first + 90}
    found = run_group(make(tile, shape(2)), sizes, 2)
    head = 2 * sizes["keys"] * 128
    queries = numbers(2 * 64 * 128, 64, 128, 128)
    keys, values = (numbers(head + first * 128, 90, 128, 128) for _ in "KV")
    scores = queries @ keys.T / np.sqrt(128)
    shares = np.exp(scores - scores.max(1, keepdims=True))
    meant = shares / shares.sum(1, keepdims=True) @ values
    got = np.array([[found[(128 + i) * 128 + j] for j in range(128)] for i in range(64)])
    assert np.abs(got - meant).max() < 0.02
