"""The sources of Airflow's configuration, and the names of what each of them has."""

from __future__ import annotations

import pytest

from walferry.airflow.page.links import Links
from walferry.airflow.run_notes import DAGS
from walferry.airflow.sources import MAX_CHARS, WrongSources, check_parts, common_name, of_source, own_name, sources_of


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("hbase_source", ["hbase_source"]),
        (" east , west-2\n", ["east", "west-2"]),
        ("a.b,A.b", ["a.b", "A.b"]),
        ("x" * MAX_CHARS, ["x" * MAX_CHARS]),
    ],
)
def test_sources_are_named_by_the_ids_of_their_connections(text: str, names: list[str]) -> None:
    found = sources_of(text)
    assert list(found.names) == names
    found.check()


@pytest.mark.parametrize(
    ("text", "names", "problem"),
    [
        ("", [], "it has an empty name, or none at all. Correct it: "),
        ("east,,west,", ["east", "west"], "it has an empty name"),
        ("east,west,east,east", ["east", "west"], "'east' twice. "),
        ("east,zk1:2181", ["east"], "'zk1:2181' is not the id of a connection"),
        ("east/x,west", ["west"], "'east/x' is not the id of a connection"),
        ("west,.,ost\u00ad", ["west"], "'.' is not the id of a connection"),
        ("west," + "x" * (MAX_CHARS + 1), ["west"], f"has {MAX_CHARS + 1} characters"),
    ],
)
def test_a_name_that_is_wrong_is_told_and_the_others_are_served(text: str, names: list[str], problem: str) -> None:
    found = sources_of(text)
    assert list(found.names) == names
    with pytest.raises(WrongSources, match=r"option sources in section \[walferry\]") as error:
        found.check()
    assert problem in str(error.value)
    assert str(error.value).isprintable()
    assert str(error.value).endswith(f"The DAGs of {', '.join(names)} go on" if names else "Until then there are no DAGs")


def test_all_that_is_wrong_is_told_at_once_and_once() -> None:
    wrong = sources_of("a/b,,east,,a/b,east").problems
    assert [problem.split()[0] for problem in wrong] == ["'a/b'", "it", "it"]


def test_a_name_depends_on_its_source_alone_and_is_no_other_source_s() -> None:
    ids = ["hbase_source", "hbase-source", "a", "a-b", "a.b"]
    assert own_name("replicate_peer", "hbase_source") == "replicate_peer"
    assert own_name("replicate_peer", "a-b") == "replicate_peer-a-b"
    names = {own_name(dag, conn_id): dag for conn_id in ids for dag in DAGS}
    assert len(names) == len(ids) * len(DAGS)
    assert {name: common_name(name) for name in names} == names


@pytest.mark.parametrize(
    ("text", "west", "east"),
    [
        ("0 * * * *", "0 * * * *", "0 * * * *"),
        ("0 * * * *; west=*/5 * * * *", "*/5 * * * *", "0 * * * *"),
        (" @daily ;east = @hourly; west=@weekly ;", "@weekly", "@hourly"),
        ("@daily; west", "@daily", "@daily"),
    ],
)
def test_an_option_may_say_something_of_its_own_for_a_source(text: str, west: str, east: str) -> None:
    assert (of_source(text, "west"), of_source(text, "east")) == (west, east)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("0 * * * *; west=*/5 * * * *; ", None),
        ("0 * * * *; west", "'west' does not say for which source it is"),
        ("0 * * * *; */5 * * * *", "'\\*/5 \\* \\* \\* \\*' does not say for which source it is"),
        ("0 * * * *; wset=@daily; =@daily", "'wset' is no source; '' is no source"),
        ("0 * * * *; west=", "'west' does not say"),
    ],
)
def test_a_part_of_an_option_that_holds_for_no_source_is_told(
    monkeypatch: pytest.MonkeyPatch, text: str, problem: str | None
) -> None:
    monkeypatch.setattr("walferry.airflow.sources.option", lambda name: text)
    if problem is None:
        check_parts("watch_schedule", ["hbase_source", "west"])
        return
    with pytest.raises(
        WrongSources, match=rf"option watch_schedule in section .*: {problem}.*Until then these parts have no effect"
    ):
        check_parts("watch_schedule", ["hbase_source", "west"])


def test_runs_of_each_source_s_batches_lead_to_their_logs() -> None:
    for dag_id in ("replicate_peer", "replicate_peer-west"):
        run = Links("/").run(f"{dag_id}/manual__1", with_try=False)
        assert run is not None
        assert run.logs == f"/dags/{dag_id}/runs/manual__1/tasks/peer.ship/mapped"
    other = Links("/").run("regionserver_failover-west/manual__1", with_try=False)
    assert other is not None
    assert other.logs is None
