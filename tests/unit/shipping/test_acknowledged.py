"""No position passes an entry that is not acknowledged."""

from hypothesis import given
from hypothesis import strategies as st

from walferry.shipping.acknowledged import Acknowledged, WalOffset


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


def test_a_window_that_is_being_handed_out_bounds_the_position_too():
    acknowledged = Acknowledged()
    acknowledged.read_to(WalOffset(0, 85))
    later = acknowledged.take(WalOffset(0, 500))  # lanes are served one after the other: the next ticket may begin at 85
    assert acknowledged.safe() == WalOffset(0, 85)
    acknowledged.close(later)
    assert acknowledged.safe() == WalOffset(0, 85)


@st.composite
def windows(draw) -> list[list[WalOffset]]:
    """The offsets at which requests begin: window by window, in the order in which they take tickets."""
    sizes = draw(st.lists(st.integers(0, 4), min_size=1, max_size=6))
    offsets = iter(WalOffset(n // 5, 85 + n) for n in range(sum(sizes)))
    return [draw(st.permutations([next(offsets) for _ in range(size)])) for size in sizes]


@given(windows(), st.data())
def test_the_safe_offset_passes_nothing_unacknowledged_and_never_falls(taken, data):
    acknowledged, open_, last = Acknowledged(), {}, WalOffset(0, 0)
    not_acknowledged = sorted(offset for window in taken for offset in window)
    end = WalOffset(99, 0)

    def check():
        nonlocal last
        safe = acknowledged.safe()
        assert last <= safe <= min(not_acknowledged, default=end)
        last = safe

    def close():
        offset = data.draw(st.sampled_from(sorted(open_)))
        acknowledged.close(open_.pop(offset))
        not_acknowledged.remove(offset)
        check()

    for window, following in zip(taken, [*taken[1:], [end]], strict=True):
        for offset in window:
            open_[offset] = acknowledged.take(offset)
            check()
            while open_ and data.draw(st.booleans()):
                close()
        if following:
            acknowledged.read_to(min(following))
            check()
    while open_:
        close()
    assert acknowledged.safe() == end
