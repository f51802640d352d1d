"""The intervals of a DAG that runs by backfills and by hand only."""

from __future__ import annotations

from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction
from airflow.timetables.interval import CronDataIntervalTimetable


class BackfillIntervals(CronDataIntervalTimetable):
    """Divides a backfill's time into the intervals of a cron expression; schedules nothing by itself.

    With Airflow's own timetables a DAG with intervals is also run on schedule.
    """

    can_be_scheduled = False

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        """Return the next interval of a backfill; none for the scheduler, which asks without catch-up as the DAG says."""
        if not restriction.catchup:
            return None
        return super().next_dagrun_info(last_automated_data_interval=last_automated_data_interval, restriction=restriction)

    @property
    def summary(self) -> str:
        """Return the text that Airflow shows as the schedule."""
        return f"backfills only, by {self._expression}"
