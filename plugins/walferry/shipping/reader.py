"""Reads the WALs of a group, filters them and hands them to the lanes."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

from walferry.bulkload.before import NOTHING_LOADED, LoadedBefore
from walferry.files.closedness import CLOSE_TIMEOUT_SECONDS, WalNotClosed
from walferry.files.store import WalStore
from walferry.filters.rules import FilterRules
from walferry.filters.visibility import LabelFilter
from walferry.filters.window import filter_window
from walferry.shipping.acknowledged import Acknowledged, WalOffset
from walferry.shipping.broken import Broken
from walferry.shipping.candidates import Candidate
from walferry.shipping.closed_wal import Progress, longest_wait, may_end_with, windows_of_closed
from walferry.shipping.counters import Counters
from walferry.shipping.group_wals import GroupWals
from walferry.shipping.lanes import Lanes
from walferry.shipping.outcome import Outcome
from walferry.sinks.errors import Stopped
from walferry.sinks.sink import Sink
from walferry.wal.errors import WalError, WalTornError, WalTruncatedError
from walferry.wal.windows import UnwrapKey, Window

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class GroupReader:
    """Reads the WALs of one attempt. `deadline` is on time.monotonic."""

    wals: GroupWals
    store: WalStore
    keys: UnwrapKey | None
    rules: FilterRules
    labels: LabelFilter
    sink: Sink
    lanes: Lanes
    acknowledged: Acknowledged
    counters: Counters
    outcome: Outcome
    broken: Broken
    deadline: float
    loaded: LoadedBefore = NOTHING_LOADED

    def run(self) -> None:
        """Read all WALs in a row. A WAL that cannot be read ends it; what was read before is still shipped."""
        try:
            try:
                self._read_all()
            except Stopped:
                raise
            except Exception as error:
                self.outcome.note(error)
            self.lanes.finish()
        except Stopped:
            return

    def _read_all(self) -> None:
        for number, wal in enumerate(self.wals.wals):
            if not self._read_or_give_up(number, wal):
                self.outcome.run_out_of_time()
                return
            self.lanes.flush()
            self.acknowledged.read_to(WalOffset(number + 1, 0))

    def _read_or_give_up(self, number: int, wal: Candidate) -> bool:
        """As `_read_wal`, but deals with a broken WAL as the run's policy says."""
        try:
            return self._read_wal(number, wal)
        except WalError as error:
            newest = number == len(self.wals.wals) - 1
            if isinstance(error, WalTruncatedError | WalTornError) and may_end_with(
                error, self.broken.policy, live=wal.live, newest=newest
            ):
                log.warning(
                    "%s at byte %d: ends here; the %d bytes that follow are not a whole entry", error.path, error.offset,
                    error.have
                )
                self.wals.unclean[number] = error.have
                return True
            if not self.broken.give_up(self.store, self.wals, self.counters, number, error):
                raise
            return True

    def _read_wal(self, number: int, wal: Candidate) -> bool:
        """Read one WAL to its end, wherever it is moved meanwhile; False if the deadline came first."""
        position = wal.queued.position
        self.acknowledged.read_to(WalOffset(number, position))
        progress = Progress()
        windows = windows_of_closed(
            self.store, self.keys, wal.queued.name, wal.dead_servers, position,
            close_seconds=lambda: self._close_seconds(wal), progress=progress,
        )  # fmt: skip
        try:
            for window, path in windows:
                if time.monotonic() > self.deadline:
                    return False
                self.hand_out_to_first_error(window, number, path)
        except WalNotClosed as error:
            if error.waited_seconds < CLOSE_TIMEOUT_SECONDS:  # the deadline cut its time short
                return False
            raise
        finally:
            if not progress.clean:
                self.wals.unclean[number] = 0
        return True

    def _close_seconds(self, wal: Candidate) -> float:
        return min(max(0.0, self.deadline - time.monotonic()), longest_wait(live=wal.live))

    def hand_out_to_first_error(self, window: Window, number: int, path: str) -> None:
        """Hand out a window. If an entry raises, those before it have gone on their way; raises the first such error."""
        try:
            self._hand_out(window, number, path)
        except WalError as error:
            sound = window.until(error.offset)
            if len(sound.index):
                self.hand_out_to_first_error(sound, number, path)
            raise

    def _rules_of(self, number: int) -> FilterRules:
        return self.loaded.rest(self.wals.wals[number].queued.name.text, self.rules)

    def _hand_out(self, window: Window, number: int, path: str) -> None:
        rules = self._rules_of(number)
        window, kept = self.labels.apply(window, filter_window(window, rules, path), path)
        self.lanes.dispatch(window, kept, number, self.sink.take(window, kept, rules, path))
        self.counters.read(window, kept)
        self.wals.ends[number] = int(window.next_positions[-1])
        self.wals.written = int(window.index.write_time[-1])
        self.acknowledged.read_to(WalOffset(number, self.wals.ends[number]))
