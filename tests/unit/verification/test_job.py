"""The input of a comparison's Spark job."""

from __future__ import annotations

from walferry.verification.job import Options


def test_options_travel_as_json():
    options = Options(start_row=b"\x00\xff", stop_row=b"b", start_time=5, versions=3, repair=True, recompare_seconds=0.5)
    assert Options.from_json(options.to_json()) == options
