"""Reads that come round a ring to a stage that was not filled again, in made sequences."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from titan.isa.simt.footprints import MemorySpace, of_ranges
from titan.isa.simt.stale_reads import StageAccess, stale_of

READER, OTHER_READER, COPY = 7, 8, 3
SOURCE = "region of A"


def place(stage, chunk=0):
    """The footprint of a part of a stage."""
    start = stage * 1024 + chunk * 64
    return of_ranges(MemorySpace.SHARED, 0, ((start, start + 64),))


def fill(stage, source=SOURCE):
    """A copy over a whole stage."""
    whole = of_ranges(MemorySpace.SHARED, 0, ((stage * 1024, stage * 1024 + 1024),))
    return StageAccess((0, 0), COPY, whole, source)


def read(stage, chunk=0, instruction=READER):
    """A read of a part of a stage."""
    return StageAccess((0, 1), instruction, place(stage, chunk), None)


@st.composite
def rings(draw):
    """Stages, tiles, parts of a stage, reads of a part, how far copies are ahead."""
    stages = draw(st.integers(2, 5))
    tiles = draw(st.integers(stages + 4, 4 * stages + 4))
    ahead = draw(st.integers(0, stages - 1))
    return stages, tiles, draw(st.integers(1, 3)), draw(st.integers(1, 3)), ahead


def run_of(ring, left_out=frozenset(), remainder=False):
    """The accesses of a ring some of whose tiles are never copied."""
    stages, tiles, chunks, times, ahead = ring
    done = [fill(tile % stages) for tile in range(ahead) if tile not in left_out]
    for tile in range(tiles):
        following = tile + ahead
        if following < tiles and following not in left_out:
            done.append(fill(following % stages))
        reader = OTHER_READER if remainder and tile >= tiles - tiles % stages else READER
        done += [read(tile % stages, c, reader) for _ in range(times) for c in range(chunks)]
    return done


@given(rings(), st.booleans())
def test_a_ring_has_none(ring, remainder):
    assert stale_of(run_of(ring, remainder=remainder)) == ()


@given(rings(), st.data(), st.booleans())
def test_one_tile_that_is_not_copied_is_found(ring, data, remainder):
    stages, tiles = ring[:2]
    left_out = data.draw(st.integers(stages + 1, tiles - 1))  # in the second round or later
    assert stale_of(run_of(ring, {left_out}, remainder)) != ()


@given(rings(), st.integers(2, 4), st.booleans())
def test_a_window_that_slides_has_none(ring, width, newest_first):
    stages, tiles, chunks, times, _ = ring
    stages = max(stages, width)
    done = [fill(tile) for tile in range(width - 1)]
    for tile in range(tiles):
        done.append(fill((tile + width - 1) % stages))
        order = range(width)[::-1] if newest_first else range(width)
        done += [
            read((tile + row) % stages, c) for row in order for _ in range(times)
            for c in range(chunks)
        ]  # fmt: skip
    assert stale_of(done) == ()


@given(st.integers(1, 4), st.integers(1, 4), st.integers(2, 5), st.booleans())
def test_arrays_that_stay_have_none(stages, items, passes, again_from_the_end):
    done = []
    for _ in range(items):
        for passing in range(passes):
            order = list(range(stages))
            if again_from_the_end and passing % 2:
                order.reverse()
            for stage in order:
                if passing == 0:
                    done.append(fill(stage))
                done += [read(stage, chunk) for chunk in range(2)]
    assert stale_of(done) == ()


@given(st.integers(1, 3), st.integers(1, 4), st.integers(2, 5), st.integers(2, 6), st.booleans())
def test_a_tile_that_stays_while_others_turn_is_none(held, chunks, items, trips, one_source):
    """As Q of attention, in one or more stages of its own."""
    done, turn = [], 0
    for item in range(items):
        done.append(fill(item % held))
        for _ in range(trips):
            done.append(fill(8 + turn % 3, SOURCE if one_source else "region of B"))
            done += [read(item % held, chunk) for chunk in range(chunks)]
            done += [read(8 + turn % 3, chunk, OTHER_READER) for chunk in range(chunks)]
            turn += 1
    assert stale_of(done) == ()


def products(trips, stages, chunks, loops, left_out=None):
    """Trips of products of a tile that stays and one of a ring; the last is another instruction."""
    done = [fill(9)]
    for trip in range(trips):
        if trip != left_out:
            done.append(fill(trip % stages, "region of B"))
        for chunk in range(chunks):
            reader = READER if trip < trips - 1 or loops else OTHER_READER
            done.append(read(9, chunk, (reader, chunk)))
            done.append(read(trip % stages, chunk, (reader, chunk))._replace(operand=1))
    return done


@given(st.integers(2, 9), st.integers(1, 3), st.integers(1, 4), st.booleans())
def test_a_tile_that_stays_beside_one_that_turns_is_none(trips, stages, chunks, loops):
    """As Q beside K in the products of attention: both are operands of one instruction."""
    assert stale_of(products(trips, stages, chunks, loops)) == ()


@given(st.integers(2, 4), st.integers(1, 3), st.booleans(), st.data())
def test_a_tile_that_is_not_copied_beside_one_that_stays_is_found(stages, chunks, loops, data):
    trips = data.draw(st.integers(stages + 4, 3 * stages + 4))
    left_out = data.draw(st.integers(stages + 1, trips - 1))
    assert stale_of(products(trips, stages, chunks, loops, left_out)) != ()


@given(rings(), st.data())
def test_what_is_unused_is_none(ring, data):
    """Only the reads of the stage that was not filled count, and of these those that are used."""
    stages, tiles = ring[:2]
    done = run_of(ring, {data.draw(st.integers(stages, tiles - 1))})
    stale = set(stale_of(done))
    unused = [access._replace(unused=access.source is None) for access in done]
    assert stale_of(unused) == ()
    halves = [access._replace(unused=data.draw(st.booleans())) for access in unused]
    assert set(stale_of(halves)) <= stale


def test_an_access_at_an_unknown_address_may_fill_any_stage():
    ring = (3, 9, 1, 1, 0)
    done = run_of(ring, {8})
    assert stale_of(done) == (READER,)
    store = StageAccess((0, 0), 5, place(0), 5, anywhere=True)
    assert stale_of([*done[:-1], store, done[-1]]) == ()
