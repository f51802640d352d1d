"""No position passes an entry that is not in_flight."""

from hypothesis import given
from hypothesis import strategies as st

from walferry.engine.in_flight import InFlight, WalOffset


def test_without_open_tickets_everything_read_is_safe():
    in_flight = InFlight()
    in_flight.read_to(WalOffset(1, 500))
    assert in_flight.low_watermark() == WalOffset(1, 500)


def test_the_first_unacknowledged_shipment_bounds_the_position():
    in_flight = InFlight()
    first, second = in_flight.begin(WalOffset(0, 85)), in_flight.begin(WalOffset(0, 200))
    in_flight.read_to(WalOffset(0, 300))
    in_flight.acknowledge(second)
    assert in_flight.low_watermark() == WalOffset(0, 85)
    in_flight.acknowledge(first)
    assert in_flight.low_watermark() == WalOffset(0, 300)


def test_a_wal_is_not_done_while_a_shipment_of_it_is_open():
    in_flight = InFlight()
    number = in_flight.begin(WalOffset(0, 85))
    in_flight.read_to(WalOffset(3, 0))
    assert in_flight.low_watermark().wal == 0
    in_flight.acknowledge(number)
    assert in_flight.low_watermark().wal == 3


def test_a_batch_that_is_being_handed_out_bounds_the_position_too():
    in_flight = InFlight()
    in_flight.read_to(WalOffset(0, 85))
    later = in_flight.begin(WalOffset(0, 500))  # senders are served one after the other: the next request may begin at 85
    assert in_flight.low_watermark() == WalOffset(0, 85)
    in_flight.acknowledge(later)
    assert in_flight.low_watermark() == WalOffset(0, 85)


@st.composite
def batches(draw) -> list[list[WalOffset]]:
    """The offsets at which requests begin: batch by batch, in the order in which they begin."""
    sizes = draw(st.lists(st.integers(0, 4), min_size=1, max_size=6))
    offsets = iter(WalOffset(n // 5, 85 + n) for n in range(sum(sizes)))
    return [draw(st.permutations([next(offsets) for _ in range(size)])) for size in sizes]


@given(batches(), st.data())
def test_the_safe_offset_passes_nothing_unacknowledged_and_never_falls(taken, data):
    in_flight, open_, last = InFlight(), {}, WalOffset(0, 0)
    not_acknowledged = sorted(offset for batch in taken for offset in batch)
    end = WalOffset(99, 0)

    def check():
        nonlocal last
        safe = in_flight.low_watermark()
        assert last <= safe <= min(not_acknowledged, default=end)
        last = safe

    def close():
        offset = data.draw(st.sampled_from(sorted(open_)))
        in_flight.acknowledge(open_.pop(offset))
        not_acknowledged.remove(offset)
        check()

    for batch, following in zip(taken, [*taken[1:], [end]], strict=True):
        for offset in batch:
            open_[offset] = in_flight.begin(offset)
            check()
            while open_ and data.draw(st.booleans()):
                close()
        if following:
            in_flight.read_to(min(following))
            check()
    while open_:
        close()
    assert in_flight.low_watermark() == end
