"""HDFS with Kerberos: each folder is used as its cluster's principal, and refusals say who, where and what to do."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from embedded.hdfs import Hdfs, HdfsSecurity
from embedded.kerberos import Kerberos as Kdc
from tests.cluster.namenode_relay import Relay, Thief, listening
from walferry.base.security.gssapi import Credential
from walferry.base.security.login import Kerberos, Login, Protection
from walferry.base.security.tickets import Service
from walferry.hbase.files import clients, logins
from walferry.hbase.files import hdfs as files_hdfs
from walferry.hbase.files.access import WRITE, Need, missing_rights, needs_of
from walferry.hbase.files.clients import file_system
from walferry.hbase.files.errors import HdfsLoginFailed, NoFileRight
from walferry.hbase.files.space import space_at
from walferry.hbase.files.systems import NewFile, file_size, list_entries, open_wal, rename, write_file
from walferry.load.staging import log_in_to

EAST, WEST = "EXAMPLE.COM", "WEST.COM"
SUPERUSER = f"hbase/localhost@{EAST}"
OTHER = f"walferry@{EAST}"
WEAKEST = Protection.AUTHENTICATION
DATA = os.urandom(3_000_000)


@pytest.fixture(scope="session")
def kdc(cluster_folder: Path) -> Iterator[Kdc]:
    """The KDCs. Their tickets can be forwarded."""
    names = ["hbase/localhost", "walferry"]
    with Kdc(cluster_folder / "hdfs-kdc", {EAST: [*names, "nn/localhost"], WEST: names}) as kdc:
        settings = kdc.krb5_conf.read_text()
        kdc.krb5_conf.write_text(settings.replace("[libdefaults]\n", "[libdefaults]\n  forwardable = true\n"))
        yield kdc


@pytest.fixture(autouse=True)
def environment(kdc: Kdc, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in kdc.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(logins, "_logins", {})
    monkeypatch.setattr(clients, "_file_systems", {})


@pytest.fixture(scope="session", params=[each.value for each in Protection])
def hdfs(request: pytest.FixtureRequest, kdc: Kdc, cluster_folder: Path) -> Iterator[Hdfs]:
    hdfs = Hdfs(cluster_folder / f"hdfs-{request.param}", security=HdfsSecurity(kdc, SUPERUSER, request.param))
    try:
        hdfs.start()
        yield hdfs
    finally:
        hdfs.kill()


@pytest.fixture
def login(kdc: Kdc) -> Callable[..., Kerberos]:
    def login(principal: str, *, keytab_of: str | None = None, accepted: Protection | None = WEAKEST) -> Kerberos:
        return Kerberos(principal=principal, keytab=str(kdc.keytab(keytab_of or principal)), protection=accepted)

    return login


@pytest.fixture
def root(hdfs: Hdfs, login: Callable[..., Kerberos]) -> str:
    """Return HBase's folder, which belongs to its user alone, as that user."""
    root = f"{hdfs.url}/hbase"
    logins.log_in(root, login(SUPERUSER))
    write_file(f"{root}/WALs/rs/wal", DATA)
    write_file(f"{root}/oldWALs/older", b"older")
    for folder in ("WALs", "oldWALs"):
        file_system(root).client.set_permission(f"/hbase/{folder}", 0o700)
    return root


def test_hbase_s_user_reads_lists_archives_and_writes(root: str) -> None:
    with open_wal(f"{root}/WALs/rs/wal") as wal:
        assert wal.read_at(1_000_000, 1000) == DATA[1_000_000:1_001_000]
    rename(f"{root}/WALs/rs/wal", f"{root}/oldWALs/wal")
    assert {entry.name for entry in list_entries(f"{root}/oldWALs")} >= {"wal", "older"}
    with NewFile(f"{root}/staging/f/hfile") as file:
        file.write(DATA)
    assert file_size(f"{root}/staging/f/hfile") == len(DATA)
    space = space_at(root)
    assert 0 < space.remaining < space.capacity
    assert missing_rights(needs_of(root)) is None
    file_system(root).client.delete("/hbase/oldWALs/wal", False)


def test_a_user_without_rights_is_told_which_and_what_to_do(root: str, login: Callable[..., Kerberos]) -> None:
    logins.log_in(root, login(OTHER))
    with pytest.raises(NoFileRight, match=r"WALs: Permission denied: user=walferry, access=READ_EXECUTE.*docs/secured-hdfs"):
        list_entries(f"{root}/WALs")
    with pytest.raises(NoFileRight, match="access=WRITE"):
        write_file(f"{root}/file", b"")
    reported = missing_rights([*needs_of(root), Need(f"{root}/gone", WRITE, "to keep shipped WALs")])
    assert reported is not None
    assert reported.count("this user may not read") == 2
    assert "user=walferry" in reported


def test_a_client_without_a_login_does_not_wait_for_ever(hdfs: Hdfs) -> None:
    with pytest.raises(HdfsLoginFailed, match=r"NameNode localhost:\d+ demands Kerberos, and there is no login to it"):
        list_entries(f"{hdfs.url}/")


def test_a_keytab_of_another_principal_is_named(hdfs: Hdfs, login: Callable[..., Kerberos]) -> None:
    logins.log_in(hdfs.url, login(OTHER, keytab_of=SUPERUSER))
    with pytest.raises(HdfsLoginFailed, match=rf"as {OTHER}, keytab .*hbase_localhost@{EAST}.keytab.* no key of {OTHER}"):
        list_entries(f"{hdfs.url}/")


def test_a_principal_of_a_realm_that_is_not_trusted_is_refused(hdfs: Hdfs, login: Callable[..., Kerberos]) -> None:
    logins.log_in(hdfs.url, login(f"walferry@{WEST}"))
    reported = f"as walferry@{WEST}, keytab .*refused the login: .*a realm that the cluster does not trust"
    with pytest.raises(HdfsLoginFailed, match=reported):
        list_entries(f"{hdfs.url}/")


def test_one_process_uses_folders_of_one_file_system_as_two_users(root: str, login: Callable[..., Kerberos]) -> None:
    system = file_system(root)
    system.client.mkdirs("/ours", 0o777, True)
    system.client.set_permission("/ours", 0o777)
    logins.log_in(ours := root.replace("/hbase", "/ours"), login(OTHER))
    write_file(f"{ours}/file", b"x")
    assert file_system(ours).client.get_file_info("/ours/file").owner == "walferry"
    assert system.client.get_file_info("/hbase/oldWALs/older").owner == "hbase"


def test_a_server_that_passes_our_login_on_to_the_name_node_gets_none_of_it(
    hdfs: Hdfs, root: str, login: Callable[..., Kerberos]
) -> None:
    """Otherwise the server could give orders as us: Hadoop's servers also accept unprotected messages, whatever was agreed on."""
    victim = f"/hbase/victim-{uuid.uuid4().hex}"
    file_system(root).client.mkdirs(victim, 0o777, True)
    relay = Relay(("localhost", int(hdfs.url.rpartition(":")[2])), victim)
    with listening(relay.serve) as port:
        through = f"hdfs://127.0.0.1:{port}/hbase"  # any other name than the NameNode's
        logins.log_in(through, login(SUPERUSER))
        with pytest.raises(HdfsLoginFailed, match="says that it is hbase/localhost, but must be"):
            list_entries(through)
    assert file_system(root).client.get_file_info(victim).isdir
    assert relay.answers == []


def test_a_name_node_has_to_protect_what_is_said_unless_the_connection_accepts_less(
    hdfs: Hdfs, root: str, login: Callable[..., Kerberos]
) -> None:
    logins.log_in(root, login(SUPERUSER, accepted=None))
    if hdfs.client_settings()["hadoop.rpc.protection"] == WEAKEST:
        with pytest.raises(HdfsLoginFailed, match="hbase/localhost offers authentication, but at least integrity is demanded"):
            list_entries(root)
    else:
        assert list_entries(root)


def test_a_peer_cluster_leads_our_login_to_no_host_that_its_connection_does_not_name(
    hdfs: Hdfs, root: str, login: Callable[..., Kerberos]
) -> None:
    token = f"{hdfs.url}/staging/hbase__t__1k2"
    for hosts in ((), ("*.west.example.com",)):
        log_in_to(token, Login(kerberos=replace(login(SUPERUSER), hosts=hosts)).for_peer_clusters())
        with pytest.raises(HdfsLoginFailed, match="is not used with the host 'localhost', which only the peer cluster names"):
            write_file(f"{token}/trial", b"x")
    log_in_to(token, Login(kerberos=replace(login(SUPERUSER), hosts=("localhost",))).for_peer_clusters())
    write_file(f"{token}/trial", b"x")


@pytest.mark.parametrize(("says", "gets"), [("hbase", [(True, False)]), ("nn", [])])
def test_hdfs_native_has_nothing_to_hand_on_and_no_ticket_for_another_server(
    kdc: Kdc, login: Callable[..., Kerberos], monkeypatch: pytest.MonkeyPatch, says: str, gets: list[tuple[bool, bool]]
) -> None:
    """After hbase/localhost has proved its name, another server answers in its place."""
    thief = Thief(kdc.keytab(f"{says}/localhost@{EAST}"), says)
    with listening(thief.serve) as port:
        monkeypatch.setattr(files_hdfs, "_proved", {("localhost", port): Service("hbase", "localhost")})
        logins.log_in(url := f"hdfs://localhost:{port}/", login(OTHER))
        client = files_hdfs.new_file_system(url, {}).client

        def use() -> None:
            with suppress(RuntimeError, OSError):  # the latter once the thief is gone
                client.get_file_info("/")

        threading.Thread(target=use, daemon=True).start()  # it keeps trying for long
        assert thief.answered.wait(60)
    assert thief.seen[:1] == gets


@pytest.mark.parametrize("principal", [SUPERUSER, None])
def test_the_tickets_of_kinit_serve_without_being_handed_on(
    root: str, kdc: Kdc, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, principal: str | None
) -> None:
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/tickets")
    identity = Kerberos(principal=principal, protection=WEAKEST)
    with monkeypatch.context() as kinit:  # the library puts a ticket into the cache, as kinit does
        kinit.setenv("KRB5_CLIENT_KTNAME", str(kdc.keytab(SUPERUSER)))
        Credential(Kerberos(principal=SUPERUSER)).get()
    logins.log_in(root, identity)
    assert {entry.name for entry in list_entries(f"{root}/oldWALs")} >= {"older"}
    assert file_system(root).client.tickets.principal == SUPERUSER
