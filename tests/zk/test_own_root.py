"""Ownership of Walferry's root: records below a root that others may have written to are not trusted, and it can be taken over.

`/` is open to all here, as in a new ensemble. The stranger has a login; HBase's znodes are closed to it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NotEmptyError
from kazoo.security import ACL, OPEN_ACL_UNSAFE, make_acl

from tests.zk.claim_cluster import ClaimCluster
from tests.zk.hbase_znodes import SERVER, wal
from tests.zk.secured_fixtures import HBASE, STRANGER, Secured
from walferry.admin import own_root
from walferry.admin.diagnosis.source import check
from walferry.admin.peers import Refused
from walferry.base.findings import Finding
from walferry.base.zk import acls
from walferry.base.zk.client import connect, connected, disconnect
from walferry.base.zk.errors import ForeignRoot, NoAccess
from walferry.base.zk.records import encode
from walferry.cli.main import main
from walferry.cli.show import ERROR, STUCK, USAGE, WELL
from walferry.hbase.layout import QueueLayout
from walferry.load.earlier_loads import loaded_before
from walferry.load.records import Load
from walferry.observe.status.view import view
from walferry.replication.queues.lease import acquire
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.peers import read_peer
from walferry.replication.source.session import Session, open_session

GROUP = wal(0, SERVER).rpartition(".")[0]
OURS = [make_acl("sasl", "hbase", all=True)]
THEIRS = [make_acl("sasl", "stranger", all=True)]
PLANTED = encode(Load("x", {GROUP: wal(10**15, SERVER)}, done=True, tables={"t1": ("f",), "ns:t2": ("f",)}))


@pytest.fixture
def hbase_zk(secured: Secured) -> Iterator[KazooClient]:
    zk = connect(secured.kerberized.quorum, login=secured.kerberos(HBASE), session_timeout=60)
    zk.default_acl = OURS
    yield zk
    disconnect(zk)


@pytest.fixture
def stranger(secured: Secured) -> Iterator[KazooClient]:
    with connected(secured.kerberized.quorum, login=secured.kerberos(STRANGER)) as zk:
        yield zk


@pytest.fixture
def at(hbase_zk: KazooClient) -> ClaimCluster:
    return ClaimCluster(hbase_zk, QueueLayout.HBASE2)


@pytest.fixture
def source(at: ClaimCluster, secured: Secured) -> SourceCluster:
    return SourceCluster(
        quorum=secured.kerberized.quorum, wal_root="file:///none", znode_parent=at.nodes.base, root=at.source.root,
        login=secured.kerberos(HBASE),
    )  # fmt: skip


def plant(zk: KazooClient, at: ClaimCluster, acl: list[ACL]) -> str:
    """Make the root, and below it a record by which all WALs of the peer count as shipped."""
    path = f"{at.own.loads('p')}/planted"
    parts = path.split("/")[1:]
    for depth in range(1, len(parts)):
        zk.create("/" + "/".join(parts[:depth]), acl=acl)
    zk.create(path, PLANTED, acl=acl)
    return path


def give_away(zk: KazooClient, root: str, acl: list[ACL]) -> None:
    """Give a tree to other users, from the leaves on."""
    for name in zk.get_children(root):
        give_away(zk, f"{root}/{name}", acl)
    zk.set_acls(root, acl)


def shipped(session: Session) -> frozenset[bytes]:
    """Return the tables whose edits count as shipped in a queued WAL."""
    return frozenset(loaded_before(session, read_peer(session, "p"), GROUP).families(wal(3, SERVER)))


def finding_of_root(source: SourceCluster) -> Finding:
    """Return the finding of a check about the root, which the check makes before it asks servers."""
    return next(finding for finding in check(source) if finding.what == "own root")


def made_open(zk: KazooClient, at: ClaimCluster) -> None:
    plant(zk, at, OPEN_ACL_UNSAFE)


def kept_below(zk: KazooClient, at: ClaimCluster) -> None:
    plant(zk, at, OURS + THEIRS)
    zk.set_acls(at.source.root, OURS)


def looks_like_ours(zk: KazooClient, at: ClaimCluster) -> None:
    plant(zk, at, OPEN_ACL_UNSAFE)
    give_away(zk, at.source.root, OURS)


def closed_to_us(zk: KazooClient, at: ClaimCluster) -> None:
    plant(zk, at, THEIRS)


def open_beside_us(zk: KazooClient, at: ClaimCluster) -> None:
    plant(zk, at, [*OURS, make_acl("world", "anyone", create=True)])


@pytest.mark.parametrize("way", [made_open, kept_below, looks_like_ours, closed_to_us, open_beside_us])
def test_what_a_stranger_has_planted_is_not_believed_and_is_told(
    way: Callable[[KazooClient, ClaimCluster], None], at: ClaimCluster, source: SourceCluster, stranger: KazooClient
) -> None:
    way(stranger, at)
    with pytest.raises(ForeignRoot, match=source.root) as refused, open_session(source) as session:
        pytest.fail(f"counts as shipped: {sorted(shipped(session))}")
    assert "walferry own-root" in str(refused.value)
    finding = finding_of_root(source)
    assert finding.severity == "wrong"
    assert source.root in finding.text


def test_an_unasked_session_changes_nothing_of_a_root_that_is_not_ours(
    at: ClaimCluster, source: SourceCluster, stranger: KazooClient
) -> None:
    made_open(stranger, at)
    with pytest.raises(ForeignRoot), open_session(source):
        pass
    with connected(source.quorum, login=source.login) as zk:
        assert any("is not Walferry's alone" in problem for problem in view(Session(source, zk, look_only=True)).problems)
    assert stranger.get_acls(source.root)[0] == OPEN_ACL_UNSAFE
    assert stranger.get_children(source.root) == ["loads"]


def test_a_root_is_made_with_its_acl_and_nobody_else_can_change_or_replace_it(
    at: ClaimCluster, source: SourceCluster, stranger: KazooClient, hbase_zk: KazooClient
) -> None:
    with open_session(source):
        pass
    for path in (source.root, f"{source.root}/clock"):
        acl, stat = hbase_zk.get_acls(path)
        assert (acl, stat.aversion) == (OURS, 0)
    made, child = (hbase_zk.exists(path).czxid for path in (source.root, f"{source.root}/clock"))
    assert made == child, "while the root was empty it could be replaced"
    with pytest.raises(NoAuthError):
        stranger.delete(f"{source.root}/clock")
    with pytest.raises(NotEmptyError):  # `/` would let it
        stranger.delete(source.root)
    with pytest.raises(NoAuthError):
        stranger.create(f"{source.root}/loads", acl=OPEN_ACL_UNSAFE)
    assert finding_of_root(source).severity == "well"


def test_a_root_that_an_operator_made_for_us_is_ours_and_cannot_be_replaced_while_it_is_empty(
    source: SourceCluster, stranger: KazooClient, hbase_zk: KazooClient
) -> None:
    hbase_zk.create(source.root)
    with open_session(source), pytest.raises(NotEmptyError):
        stranger.delete(source.root)


def test_a_stranger_that_is_faster_than_our_first_session_is_found_out(
    at: ClaimCluster, source: SourceCluster, stranger: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = acls._look
    looks: list[str] = []

    def and_then(zk: KazooClient, path: str) -> Any:
        found = look(zk, path)
        if path == source.root and not looks:
            looks.append(path)
            made_open(stranger, at)
        return found

    monkeypatch.setattr(acls, "_look", and_then)
    with pytest.raises(ForeignRoot), open_session(source):
        pytest.fail("the stranger's root was taken")
    assert looks


def test_where_nobody_may_make_the_root_the_error_says_how(
    at: ClaimCluster, source: SourceCluster, hbase_zk: KazooClient, stranger: KazooClient
) -> None:
    stranger.create(f"{source.root}-parent", acl=[make_acl("sasl", "stranger", all=True), make_acl("world", "anyone", read=True)])
    closed = replace(source, root=f"{source.root}-parent/walferry")
    with pytest.raises(NoAccess, match=f"create {closed.root} '' sasl:hbase:cdrwa"), open_session(closed):
        pytest.fail("there is no root")


@pytest.fixture
def command(source: SourceCluster, secured: Secured, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    kerberos = source.login.kerberos
    assert kerberos is not None
    extra = {
        "wal_root": "file:///none", "znode_parent": source.znode_parent, "walferry_root": source.root,
        "principal": kerberos.principal, "keytab": kerberos.keytab, "zk_auth": "kerberos",
    }  # fmt: skip
    host, _, port = source.quorum.partition(":")
    given = json.dumps({"conn_type": "hbase_source", "host": host, "port": int(port), "extra": extra})

    def run(*arguments: str) -> tuple[int, str]:
        status = main(["--source", given, "own-root", *arguments])
        shown = capsys.readouterr()
        return status, shown.out + shown.err

    return run


def test_a_root_of_a_stranger_is_shown_and_taken_over_without_what_was_planted(
    at: ClaimCluster, source: SourceCluster, stranger: KazooClient, hbase_zk: KazooClient, command: Callable[..., tuple[int, str]]
) -> None:
    made_open(stranger, at)
    planted = f"{at.own.loads('p')}/planted"
    status, shown = command()
    assert status == STUCK
    assert planted in shown
    assert "world:anyone" in shown
    assert stranger.get_acls(source.root)[0] == OPEN_ACL_UNSAFE
    assert command("--take-over", "drop-records")[0] == WELL
    assert not hbase_zk.exists(planted)
    with open_session(source) as session:
        assert not shipped(session)
        acquire(session, "p", GROUP, "run").release()
    assert command() == (WELL, f"{source.root} is Walferry's alone, or is not there yet\n")
    assert command("--take-over", "drop-records")[0] == ERROR


def test_records_from_times_without_logins_can_be_kept(
    at: ClaimCluster, source: SourceCluster, hbase_zk: KazooClient, secured: Secured, command: Callable[..., tuple[int, str]]
) -> None:
    with connected(secured.kerberized.quorum) as anonymous:
        anonymous.create(f"{at.own.runs('p')}/run/group", b"{}", makepath=True)
        anonymous.create(f"{at.own.loads('p')}/load", PLANTED, makepath=True)
        anonymous.create(f"{at.own.loads('p')}/load/note", b"{}", makepath=True)
    assert command("--take-over", "keep-records", "--shown", mark_in(command()[1]))[0] == WELL
    kept = {path: hbase_zk.get(path)[0] for path in (f"{at.own.loads('p')}/load", f"{at.own.loads('p')}/load/note")}
    assert list(kept.values()) == [PLANTED, b"{}"]
    assert all(hbase_zk.get_acls(path)[0] == OURS for path in kept)
    assert not hbase_zk.exists(at.own.runs("p"))
    with open_session(source):
        pass


def mark_in(shown: str) -> str:
    """Return the mark of the records that the command has shown."""
    return shown.rpartition("--shown ")[2].strip()


def test_no_record_is_kept_that_was_not_shown(
    at: ClaimCluster, source: SourceCluster, stranger: KazooClient, hbase_zk: KazooClient, command: Callable[..., tuple[int, str]]
) -> None:
    stranger.create(f"{at.own.loads('p')}/ours", b"ours", acl=OPEN_ACL_UNSAFE, makepath=True)
    mark = mark_in(command()[1])
    stranger.create(f"{at.own.loads('p')}/later", PLANTED, acl=OPEN_ACL_UNSAFE)
    status, reported = command("--take-over", "keep-records", "--shown", mark)
    assert status == ERROR
    assert "not those that were shown" in reported
    with pytest.raises(NoAuthError):
        stranger.create(f"{at.own.loads('p')}/latest", PLANTED, acl=OPEN_ACL_UNSAFE)
    shown = command()[1]
    assert f"{at.own.loads('p')}/later" in shown
    hbase_zk.delete(f"{at.own.loads('p')}/later")
    assert command("--take-over", "keep-records", "--shown", mark)[0] == WELL
    assert hbase_zk.get_children(at.own.loads("p")) == ["ours"]


def test_a_record_whose_value_has_changed_since_it_was_shown_is_not_kept(
    at: ClaimCluster, stranger: KazooClient, command: Callable[..., tuple[int, str]]
) -> None:
    stranger.create(f"{at.own.loads('p')}/ours", b"ours", acl=OPEN_ACL_UNSAFE, makepath=True)
    mark = mark_in(command()[1])
    stranger.set(f"{at.own.loads('p')}/ours", PLANTED)
    assert command("--take-over", "keep-records", "--shown", mark)[0] == ERROR


def test_records_are_kept_only_with_the_mark_of_those_that_were_shown(command: Callable[..., tuple[int, str]]) -> None:
    assert command("--take-over", "keep-records")[0] == USAGE
    assert command("--take-over", "drop-records", "--shown", "x")[0] == USAGE


def test_each_record_that_can_be_kept_is_shown_with_its_time(
    at: ClaimCluster, stranger: KazooClient, command: Callable[..., tuple[int, str]]
) -> None:
    stranger.ensure_path(at.own.loads("p"), acl=OPEN_ACL_UNSAFE)
    names = [f"{at.own.loads('p')}/{i:04d}" for i in range(200)]
    for name in names:
        stranger.create(name, PLANTED, acl=OPEN_ACL_UNSAFE)
    shown = command()[1].splitlines()
    assert [line.split()[-1] for line in shown if line.startswith("  20")] == names


def test_what_others_have_put_there_is_not_all_read(
    at: ClaimCluster, stranger: KazooClient, hbase_zk: KazooClient, command: Callable[..., tuple[int, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    read: list[str] = []
    monkeypatch.setattr(own_root, "read_all", lambda zk, paths: read.extend(paths))
    for parent in (at.own.runs("p"), at.own.loads("p")):
        stranger.ensure_path(parent, acl=OPEN_ACL_UNSAFE)
        for i in range(10):
            stranger.create(f"{parent}/{i:02d}", bytes(100_000), acl=OPEN_ACL_UNSAFE)
    status, shown = command()
    assert status == STUCK
    assert f"{at.own.loads('p')}/09" in shown
    assert "--shown" not in shown
    assert "at most 900,000 can be kept" in command("--take-over", "keep-records", "--shown", "x")[1]
    assert command("--take-over", "drop-records")[0] == WELL
    assert hbase_zk.get_children(at.source.root) == ["clock"]
    assert not read


def test_a_root_with_runs_at_work_is_closed_but_not_taken_over(
    at: ClaimCluster, source: SourceCluster, secured: Secured, command: Callable[..., tuple[int, str]]
) -> None:
    with connected(secured.kerberized.quorum) as anonymous:
        anonymous.create(f"{at.own.lease('p', GROUP)}/held", ephemeral=True, makepath=True)
        status, shown = command("--take-over", "drop-records")
        assert status == ERROR
        assert "runs are at work" in shown
        assert f"{at.own.lease('p', GROUP)}/held" in shown
        with pytest.raises(NoAuthError):
            anonymous.create(f"{source.root}/loads")
    with pytest.raises(ForeignRoot), open_session(source):
        pass
    assert command("--take-over", "drop-records")[0] == WELL


def test_a_root_that_does_not_let_us_in_is_left_alone(
    at: ClaimCluster, stranger: KazooClient, command: Callable[..., tuple[int, str]]
) -> None:
    closed_to_us(stranger, at)
    status, shown = command("--take-over", "drop-records")
    assert status == ERROR
    assert "walferry_root" in shown


def test_a_record_that_is_written_while_the_root_is_taken_over_is_not_put_back(
    at: ClaimCluster, source: SourceCluster, secured: Secured, stranger: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_open(stranger, at)
    delete = own_root._delete

    def and_then(zk: KazooClient, paths: Sequence[str]) -> None:
        delete(zk, paths)
        zk.set(f"{at.own.loads('p')}/planted", b"newer")

    monkeypatch.setattr(own_root, "_delete", and_then)
    with connected(secured.kerberized.quorum, login=source.login) as zk:
        shown = own_root.look_at_root(Session(source, zk))
        with pytest.raises(Refused, match="has changed while it was being taken over"):
            own_root.take_over(Session(source, zk), keep=shown.mark)
        assert zk.get(f"{at.own.loads('p')}/planted")[0] == b"newer"


@pytest.mark.parametrize("step", range(1, 9))
def test_a_take_over_that_is_killed_leaves_a_root_that_is_refused_or_ours(
    step: int, at: ClaimCluster, source: SourceCluster, secured: Secured, stranger: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_open(stranger, at)
    stranger.create(f"{source.root}/runs", acl=OPEN_ACL_UNSAFE)
    calls: list[str] = []
    real = own_root.retried

    def killed(zk: KazooClient, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        calls.append(str(args[:1]))
        if len(calls) == step:
            raise KeyboardInterrupt
        return real(zk, call, *args, **kwargs)

    with connected(secured.kerberized.quorum, login=source.login) as zk:
        mark = own_root.look_at_root(Session(source, zk)).mark
        monkeypatch.setattr(own_root, "retried", killed)
        with pytest.raises(KeyboardInterrupt):
            own_root.take_over(Session(source, zk), keep=mark)
        monkeypatch.undo()
        with pytest.raises(ForeignRoot), open_session(source):
            pass
        own_root.take_over(Session(source, zk), keep=mark)
    with open_session(source) as session:
        assert shipped(session), "it was kept"
