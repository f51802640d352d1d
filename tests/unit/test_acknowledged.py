"""No position passes an offset below which something is not acknowledged."""

from hypothesis import given
from hypothesis import strategies as st

from walferry.acknowledged import Acknowledged, WalOffset


def test_without_open_tickets_everything_read_is_safe():
    acknowledged = Acknowledged()
    acknowledged.read_to(WalOffset(1, 500))
    assert acknowledged.safe() == WalOffset(1, 500)


def test_the_first_unacknowledged_shipment_bounds_the_position():
    acknowledged = Acknowledged()
    first, second = acknowledged.take(WalOffset(0, 85)), acknowledged.take(WalOffset(0, 200))
    acknowledged.read_to(WalOffset(0, 300))
    acknowledged.close(second)
    assert acknowledged.safe() == WalOffset(0, 85)
    acknowledged.close(first)
    assert acknowledged.safe() == WalOffset(0, 300)


def test_a_wal_is_not_done_while_a_shipment_of_it_is_open():
    acknowledged = Acknowledged()
    ticket = acknowledged.take(WalOffset(0, 85))
    acknowledged.read_to(WalOffset(3, 0))
    assert acknowledged.safe().wal == 0
    acknowledged.close(ticket)
    assert acknowledged.safe().wal == 3


@given(st.data())
def test_the_safe_offset_never_passes_an_open_ticket_and_never_falls(data):
    acknowledged, open_, at, last = Acknowledged(), {}, WalOffset(0, 0), WalOffset(0, 0)
    for _ in range(data.draw(st.integers(1, 40))):
        if open_ and data.draw(st.booleans()):
            ticket = data.draw(st.sampled_from(sorted(open_)))
            acknowledged.close(ticket)
            del open_[ticket]
        else:
            if data.draw(st.booleans()):
                open_[acknowledged.take(at)] = at
            step = data.draw(st.integers(0, 9))
            at = WalOffset(at.wal, at.offset + step) if step else WalOffset(at.wal + 1, 0)
            acknowledged.read_to(at)
        safe = acknowledged.safe()
        assert safe == min(open_.values(), default=at)
        assert safe >= last
        last = safe
