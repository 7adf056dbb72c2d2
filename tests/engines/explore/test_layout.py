"""The description that the C core and its Python side share."""

from titan.engines.explore import layout
from titan.engines.explore.tables import FENCES, PROXIES, FlatNode
from titan.sync import program as ir
from titan.sync.fault import FaultKind

NOT_SEARCHED = {FaultKind.WEAK_SYNCHRONISATION}  # what only the happens-before engine sees


def test_the_core_knows_every_fault_by_the_number_of_its_rule() -> None:
    names = {item.name: f"TTN{item.value}" for item in layout.NativeFault if item}
    assert names == {kind.name: kind.value for kind in FaultKind if kind not in NOT_SEARCHED}


def test_every_proxy_and_fence_has_a_number() -> None:
    assert set(PROXIES) == set(ir.Proxy)
    assert set(FENCES) == set(ir.FenceKind)


def test_a_node_has_a_word_for_each_field() -> None:
    node = FlatNode(layout.NativeNodeKind.WAIT, next=7, a=11, rewinds=5)
    words = dict(zip(layout.RECORDS["node_t"], node.words(), strict=True))
    assert (words["kind"], words["next"], words["a"], words["rewinds"]) == (12, 7, 11, 5)


def test_no_two_constants_of_the_header_have_one_name() -> None:
    names = [prefix + item.name for enum, prefix in layout.PREFIXES.items() for item in enum]
    names += layout.LIMITS
    assert len(names) == len(set(names))
