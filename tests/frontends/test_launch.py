"""Launch files: recorded, from Triton, by hand; faults with their places."""

from __future__ import annotations

import copy
import json

import pytest

from titan.foundation.source.span import whole_file
from titan.frontends.ptx.launch import completed, read_launch_text
from titan.frontends.ptx.tensor_maps import element_bits, encoded, serial_of
from titan.isa.ptx.module import Function, StateSpace, Variable


def parameter(name: str, type_name: str, size: int) -> Variable:
    return Variable(name, StateSpace.PARAMETER, type_name, size, size)


def entry(*parameters: Variable, **directives: tuple[int, ...]) -> Function:
    return Function("k", True, parameters, (), (), (), 0, 0, directives)


GEMM = entry(
    parameter("a", "b8", 128), parameter("k", "u32", 4), parameter("scale", "f32", 4),
    parameter("out", "u64", 8), reqntid=(256,),
)  # fmt: skip


def read(text: str):
    described, errors = read_launch_text(text, "k.yaml")
    return described, [item.headline for item in errors]


def test_a_launch_by_hand():
    described, errors = read(
        """
        grid: [4, 2]
        dynamic_shared: 65536
        parameters:
          - map: {dimensions: [256, 512], box: [64, 128], data_type: bf16, swizzle: 128B}
          - 256
          - 0.5
          - pointer
        """
    )
    assert errors == []
    launch, problems, notes = completed(described, GEMM, whole_file("k.ptx"))
    assert problems == [] and notes == []
    assert launch is not None and launch.grid == (4, 2, 1) and launch.block == (256, 1, 1)
    number = serial_of(launch.parameters[0].data)
    assert number == 0
    found = launch.tensor_maps[encoded(number)]
    assert (found.dimensions, found.stride_bytes, found.swizzle) == ((256, 512), (512,), 3)
    assert element_bits(found.data_type) == 16
    assert launch.parameters[1].data == (256).to_bytes(4, "little")
    assert launch.parameters[2].data == bytes.fromhex("0000003f")
    assert int.from_bytes(launch.parameters[3].data, "little") % 256 == 0


def test_parameters_by_name_and_what_is_left_open():
    described, errors = read("{grid: 1, dynamic_shared: 0, parameters: {k: 7, 3: pointer}}")
    assert errors == []
    launch, problems, _ = completed(described, GEMM, whole_file("k.ptx"))
    assert problems == [] and launch is not None
    assert launch.parameters[0].known == bytes(128)
    assert launch.parameters[1].known is None
    assert launch.parameters[2].known == bytes(4)


def test_a_recorded_launch_with_a_map_inside_of_a_structure():
    inner = encoded(7)
    recorded = {
        "entry": "k", "call": "cuLaunchKernel", "grid": [1, 1, 1], "block": [128, 1, 1],
        "cluster": [2, 1, 1], "dynamic_shared": 0,
        "parameters": [{"size": 192, "bytes": (bytes(64) + inner).hex()}],
        "tensor_maps": [{"serial": 7, "data_type": 6, "rank": 1, "base": 4096, "interleave": 0,
                         "swizzle": 0, "promotion": 0, "fill": 0, "dimensions": [64],
                         "stride_bytes": [], "box": [64], "element_strides": [1]}],
        "allocations": [],
    }  # fmt: skip
    described, errors = read(json.dumps(recorded))
    assert errors == []
    function = entry(parameter("p", "b8", 192))
    launch, problems, _ = completed(described, function, whole_file("k.ptx"))
    assert launch is None
    assert problems[0].code == "TTN017"  # one CTA is no multiple of a cluster of two
    good, _ = read(json.dumps({**recorded, "grid": [2, 1, 1]}))
    launch, problems, _ = completed(good, function, whole_file("k.ptx"))
    assert problems == [] and launch is not None
    assert launch.parameters[0].data[64:] == inner
    assert launch.tensor_maps[inner].base == 4096


def test_triton_metadata():
    meta = {
        "name": "k", "num_warps": 8, "shared": 1024, "cluster_dims": [1, 1, 1], "hash": "x",
        "tensordesc_meta": [{"swizzle": 3, "elem_size": 2, "elem_type": 6,
                             "block_size": [128, 64], "fp4_padded": False}],
    }  # fmt: skip
    described, errors = read(json.dumps(meta))
    assert errors == []
    launch, problems, notes = completed(described, GEMM, whole_file("k.ptx"))
    assert problems == [] and launch is not None
    assert launch.tensor_maps[launch.parameters[0].data].box == (64, 128)
    assert any("grid" in note for note in notes)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{grids: [1]}", "a launch has no key `grids`"),
        ("{grid: [0]}", "the grid must be at least 1, not 0"),
        ("{parameters: [{bytes: xy}]}", "the bytes are not hexadecimal"),
        ("{parameters: [{size: 4, bytes: '00'}]}", "a parameter of 4 bytes is given 1"),
        ("{parameters: [maybe]}", "a parameter must be a number, `pointer`, `unknown`, bytes"),
        ("{parameters: [{tensor_map: 3}]}", "no tensor map 3 is declared"),
        ("{tensor_maps: [{box: [1]}]}", "a tensor map lacks the key `dimensions`"),
        ("{tensor_maps: [{dimensions: [4, 4], box: [4]}]}", "a tensor map of rank 2 has 2 values"),
        ("{dynamic_shared: []}", "the shared bytes must be an integer, not a list"),
        ("{shared: {}}", "the shared bytes must be an integer, not a mapping"),
        ("{dynamic_shared: 0, shared: 0}", "`shared` and `dynamic_shared` are the same bytes"),
        ("{parameters: [{pointer: {}}]}", "a field has one type and its value"),
        ("{parameters: [{pointer: {u8: 1, 4: {u8: 1}}}]}", "an offset is a number of bytes"),
        (
            "{parameters: [{bytes: '00', at: {}}]}",
            "a parameter is given 2 values: `at` and `bytes`",
        ),
        (
            "{parameters: [{map: {}, bytes: '00'}]}",
            "a parameter is given 2 values: `map` and `bytes`",
        ),
        ("{parameters: [{bytes: '00', maps: 7}]}", "the maps of a parameter must be a mapping"),
    ],
)
def test_faults_of_a_launch_file(text, said):
    described, errors = read(text)
    assert described is None
    assert any(error.startswith(said) for error in errors), errors


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{parameters: {j: 1}}", "no parameter `j` is declared"),
        ("{parameters: [1]}", "parameter 0 (a) has 128 bytes of type b8"),
        ("{parameters: {k: 5000000000}}", "parameter 1 (k) has 4 bytes of type u32"),
        ("{parameters: {k: pointer}}", "parameter 1 (k) has 4 bytes, and a pointer has 8"),
        ("{block: 128}", "k is compiled for a block of"),
    ],
)
def test_faults_that_the_code_shows(text, said):
    described, errors = read(text)
    assert errors == []
    launch, problems, _ = completed(described, GEMM, whole_file("k.ptx"))
    assert launch is None
    assert any(item.headline.startswith(said) for item in problems), problems


@pytest.mark.parametrize(
    ("block", "right"), [("128", True), ("[16, 8]", True), ("129", False), ("[64, 2, 2]", False)]
)
def test_a_block_beyond_what_the_code_is_compiled_for(block, right):
    described, _ = read(f"{{block: {block}}}")
    launch, problems, _ = completed(described, entry(maxntid=(64, 2)), whole_file("k.ptx"))
    assert (launch is not None) is right, problems
    if not right:
        assert problems[0].headline.startswith("k is compiled for at most 128 threads")


@pytest.mark.parametrize(("dynamic", "right"), [(232448 - 1024, True), (232448 - 1020, False)])
def test_static_and_dynamic_shared_memory_together(dynamic, right):
    static = Variable("s", StateSpace.SHARED, "b8", 1024, 16)
    function = Function("k", True, (), (), (), (static,), 0, 0, {"reqntid": (32,)})
    described, _ = read(f"{{dynamic_shared: {dynamic}}}")
    launch, problems, _ = completed(described, function, whole_file("k.ptx"))
    assert (launch is not None) is right, problems
    assert right or "more than 232448" in problems[0].headline


def test_a_block_that_nothing_tells_is_asked_for():
    launch, problems, _ = completed(None, entry(maxntid=(64, 2)), whole_file("k.ptx"))
    assert launch is None
    assert problems[0].code == "TTN018"
    assert problems[0].headline == "the launch of k lacks its block, at most 128 threads"


@pytest.mark.parametrize(
    ("cluster", "right"), [([2], True), ([2, 2], True), ([5], False), ([2, 4], False)]
)
def test_clusters_are_no_larger_than_the_code_was_compiled_for(cluster, right):
    text = f"{{grid: [20, 20], block: 64, cluster: {cluster}}}"
    launch, problems, _ = completed(read(text)[0], entry(maxclusterrank=(4,)), whole_file("k.ptx"))
    assert (launch is not None) is right, problems
    assert right or (problems[0].code == "TTN017" and "at most 4 CTAs" in problems[0].headline)


def test_clusters_are_those_of_the_code_and_may_be_what_the_grid_counts():
    plain = entry(reqntid=(64,), reqnctapercluster=(2,))
    counted = entry(reqntid=(64,), reqnctapercluster=(2,), blocksareclusters=())

    def shape(function, text):
        launch, problems, notes = completed(read(text)[0], function, whole_file("k.ptx"))
        assert launch is not None, problems
        return launch.grid, launch.cluster, notes

    for cluster in ("", ", cluster: [2]", ", cluster: [1, 1, 1]"):  # recordings say 1 for none
        grid = f"{{grid: [4, 3]{cluster}}}"
        assert shape(plain, grid)[:2] == ((4, 3, 1), (2, 1, 1))
        assert shape(counted, grid)[:2] == ((8, 3, 1), (2, 1, 1))
    assert "counts clusters" in shape(counted, "{grid: [4, 3]}")[2][0]
    assert shape(counted, "{}")[0] == (2, 1, 1)
    launch, problems, _ = completed(
        read("{grid: [4], cluster: [4]}")[0], plain, whole_file("k.ptx")
    )
    assert launch is None
    assert problems[0].headline == "k is compiled for clusters of 2x1x1, not 4x1x1"


STRUCTURE = entry(parameter("p", "b8", 192), parameter("q", "b8", 24))


def test_a_structure_is_given_by_the_offsets_of_its_fields():
    described, errors = read(
        """
        grid: 1
        block: 32
        dynamic_shared: 0
        parameters:
          - at:
              64: {map: {dimensions: [256], box: [64]}}
              4: {s32: -2}
              8: {f32: 0.5}
          - at: {8: pointer, 0: {bytes: ff00}}
        """
    )
    assert errors == []
    launch, problems, _ = completed(described, STRUCTURE, whole_file("k.ptx"))
    assert problems == [] and launch is not None
    first, second = launch.parameters
    assert first.data[4:12].hex() == "feffffff0000003f"
    assert launch.tensor_maps[first.data[64:192]].box == (64,)
    assert first.known == bytes(4) + b"\1" * 8 + bytes(52) + b"\1" * 128
    assert second.data[:2].hex() == "ff00"
    assert second.known == b"\1\1" + bytes(6) + b"\1" * 8 + bytes(8)


def test_what_is_known_of_memory_behind_pointers():
    described, errors = read(
        """
        grid: 1
        block: 32
        dynamic_shared: 0
        parameters:
          - at:
              0: {pointer: {s32: [3, -1]}}
              8: pointer
          - at:
              0: {pointer: {0: {map: {dimensions: [256], box: [64]}}, 128: {pointer: {u8: 7}}}}
        """
    )
    assert errors == []
    launch, problems, _ = completed(described, STRUCTURE, whole_file("k.ptx"))
    assert problems == [] and launch is not None
    first, second = launch.parameters
    at = [int.from_bytes(item.data[:8], "little") for item in (first, second)]
    assert launch.memory[at[0]] == b"\3\0\0\0\xff\xff\xff\xff"
    assert launch.tensor_maps[launch.memory[at[1]]].box == (64,)
    inner = int.from_bytes(launch.memory[at[1] + 128], "little")
    assert launch.memory[inner] == b"\7"
    assert len({*at, inner, int.from_bytes(first.data[8:16], "little")}) == 4


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{pointer: 5}", "a field must be a mapping"),
        ("{pointer: {s32: [1, x]}}", "the value does not fit s32"),
        ("{pointer: {0: {u32: 1}, 2: {u8: 1}}}", "fields overlap at offset 2"),
        ("{pointer: {-4: {u32: 1}}}", "an offset is a number of bytes"),
        ("{pointer: {f16: 1}}", "a field has no key `f16`"),
    ],
)
def test_faults_of_what_pointers_lead_to(text, said):
    described, errors = read(f"{{parameters: [{text}]}}")
    assert described is None
    assert any(error.startswith(said) for error in errors), errors


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{at: [1]}", "`at` gives values by their offsets"),
        ("{at: {x: {s32: 1}}}", "an offset is a number of bytes"),
        ("{at: {0: {s32: 1, u8: 1}}}", "a field has one type and its value"),
        ("{at: {0: {u8: 256}}}", "the value does not fit u8"),
        ("{at: {0: {s31: 1}}}", "a field has no key `s31`"),
        ("{at: {0: {map: 4}}}", "no tensor map 4 is declared"),
    ],
)
def test_faults_of_a_structure(text, said):
    described, errors = read(f"{{parameters: [{text}]}}")
    assert described is None
    assert any(error.startswith(said) for error in errors), errors


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{189: {s32: 1}}", "parameter 0 (p) has 192 bytes: a field of 4 bytes at offset 189"),
        ("{4: {s32: 1}, 6: {u8: 1}}", "parameter 0 (p) has 192 bytes: fields overlap at offset 6"),
    ],
)
def test_fields_that_do_not_fit_their_structure(text, said):
    described, errors = read(f"{{block: 32, parameters: [{{at: {text}}}]}}")
    assert errors == []
    launch, problems, _ = completed(described, STRUCTURE, whole_file("k.ptx"))
    assert launch is None
    assert any(item.headline.startswith(said) for item in problems), problems


@pytest.mark.parametrize(
    ("name", "number", "stride"),
    [("16u4_align8b", 13, 128), ("16u4_align16b", 14, 128), ("16u6_align16b", 15, 192)],
)
def test_maps_of_packed_types_are_dense_where_no_strides_are_given(name, number, stride):
    text = f"parameters:\n  - map: {{data_type: {name}, dimensions: [256, 64], box: [128, 8]}}\n"
    described, errors = read_launch_text(text, "launch.yaml")
    assert described is not None and errors == []
    (map_,) = described.maps.values()
    assert (map_.data_type, map_.stride_bytes) == (number, (stride,))


def test_json_quotes_the_offsets_and_positions_that_yaml_does_not():
    tensor = {"dimensions": [64, 64], "box": [64, 8], "data_type": "f16"}
    at = {"at": {"0": {"map": tensor}, "128": {"s32": 5}}}
    quoted = json.dumps({"grid": 1, "dynamic_shared": 0, "parameters": {"0": at}})
    for text in (quoted, quoted.replace('"0"', "0").replace('"128"', "128")):
        described, errors = read(text)
        assert errors == [] and list(described.parameters) == [0]
        given = described.parameters[0]
        assert given.maps == ((0, 0),) and given.fields == ((128, (5).to_bytes(4, "little")),)


def test_json_places_maps_in_bytes_and_values_in_memory():
    written = {
        "grid": 1, "dynamic_shared": 0, "tensor_maps": [{"dimensions": [64], "box": [64]}],
        "parameters": [{"bytes": bytes(192).hex(), "maps": {"64": 0}},
                       {"pointer": {"0": {"s32": 3}, "8": {"s32": 9}}}],
    }  # fmt: skip
    described, errors = read(json.dumps(written))
    assert errors == []
    assert described.parameters[0].maps == ((64, 0),)
    start = described.parameters[1].number
    assert described.memory == {start: b"\3\0\0\0", start + 8: b"\t\0\0\0"}
    written["parameters"][0]["maps"] = {"x": 0}
    _, errors = read(json.dumps(written))
    assert errors == ["no tensor map fits at this offset"]


# ----------------------------------------------------------------- a wrong value in every place

WHOLE = {
    "launch": 1, "entry": "k", "call": "cuLaunchKernel", "grid": [2, 1], "block": 128,
    "cluster": [2], "dynamic_shared": 64, "cancelled": 1, "cooperative": False,
    "parameters": {
        "0": {"size": 128, "bytes": "00" * 128, "maps": {"0": 3}},
        "1": {"pointer": {"0": {"s32": [1, 2]}, "8": {"f32": 0.5}, "16": {"bytes": "00ff"}}},
        "2": {"pointer": {"u8": 7}},
        "3": {"at": {"0": {"u64": 512}, "8": "pointer", "16": {"map": {"dimensions": [4],
                                                                       "box": [4]}}}},
        "4": {"tensor_map": 3}, "5": 7, "6": "unknown",
    },
    "tensor_maps": [{
        "serial": 3, "data_type": "f16", "rank": 2, "base": 64, "interleave": 0, "swizzle": "128B",
        "promotion": 0, "fill": 0, "dimensions": [64, 64], "stride_bytes": [128], "box": [64, 8],
        "element_strides": [1, 1],
    }],
    "allocations": [[64, 128], {"start": 0, "bytes": 8}],
}  # fmt: skip
TRITON = {
    "name": "k", "num_warps": 4, "shared": 1024, "cluster_dims": [1, 1, 1],
    "tensordesc_meta": [{"block_size": [64, 64], "swizzle": 3, "elem_size": 2, "elem_type": 6}],
}  # fmt: skip
WRONG = [
    None, True, "", "x", "-1", -1, 0, 10**30, 1.5, [], {}, ["x"], {"x": "x"}, [[1]], "a b", "@",
    "1..2", "nan",
]  # fmt: skip
NOT_READ = {"launch", "call", "promotion", "fill", "num_warps"}


def places(data, before=()):
    """The paths of all values, the whole first."""
    yield before
    pairs = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in pairs:
        if isinstance(value, dict | list):
            yield from places(value, (*before, key))
        else:
            yield (*before, key)


def value_at(data, path):
    for key in path:
        data = data[key]
    return data


def with_value(data, path, value):
    if not path:
        return value
    made = copy.deepcopy(data)
    value_at(made, path[:-1])[path[-1]] = value
    return made


@pytest.mark.parametrize("whole", [WHOLE, TRITON], ids=["written", "of Triton"])
def test_a_wrong_value_in_every_place_is_told_at_a_place(whole):
    """No exception, and nothing empty is taken for a value that is left out."""
    described, errors = read_launch_text(json.dumps(whole, indent=1), "k.json")
    assert described is not None, errors
    silent = []
    for path in places(whole):
        scalar = not isinstance(value_at(whole, path), dict | list)
        for wrong in WRONG:
            text = json.dumps(with_value(whole, path, wrong), indent=1)
            described, errors = read_launch_text(text, "k.json")
            assert (described is None) == bool(errors), (path, wrong)
            lines = text.count("\n") + 1
            assert all(item.span is not None for item in errors), (path, wrong)
            assert all(item.span.start_line <= lines for item in errors), (path, wrong)
            if described is not None:
                completed(described, GEMM, whole_file("k.ptx"))
                if scalar and wrong in ([], {}) and not NOT_READ & set(path):
                    silent.append((path, wrong))
    assert silent == []
