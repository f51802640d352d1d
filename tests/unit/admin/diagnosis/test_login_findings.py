"""Findings about a login on this machine."""

from __future__ import annotations

import re
import socket
import threading
from pathlib import Path

import pytest

from embedded.certificates import Authority
from tests.unit.base.security.keytabs import keytab
from walferry.admin.diagnosis import logins
from walferry.admin.diagnosis.logins import login_findings
from walferry.base.security.gssapi import Credential, KerberosError
from walferry.base.security.login import Kerberos, Login, Tls, ZooKeeperAuth, ZooKeeperLogin


def found(login: Login) -> dict[str, tuple[str, str]]:
    return {each.what: (str(each.severity), f"{each.text}. {each.advice}") for each in login_findings("source", login)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A keytab with a key of walferry@EAST."""
    path = tmp_path / "walferry.keytab"
    path.touch(mode=0o600)
    path.write_bytes(keytab("walferry@EAST", version=3))
    return path


@pytest.fixture
def kdc(monkeypatch: pytest.MonkeyPatch) -> None:
    """A KDC that gives tickets to all."""
    monkeypatch.setattr(Credential, "get", lambda self: None)


def login(path: Path, principal: str = "walferry@EAST") -> Login:
    return Login(kerberos=Kerberos(principal=principal, keytab=str(path)))


def test_of_a_cluster_that_is_not_secured_there_is_nothing_to_look_at() -> None:
    assert found(Login(user="etl")) == {}


@pytest.mark.usefixtures("kdc")
def test_a_keytab_and_a_ticket(path: Path) -> None:
    assert found(login(path)) == {
        "source: keytab": ("well", f"{path} holds a key of walferry@EAST: version 3, aes256-cts-hmac-sha1-96. "),
        "source: ticket": ("well", "the KDC has given one for walferry@EAST. "),
    }


@pytest.mark.usefixtures("kdc")
def test_a_keytab_of_another_principal_is_told_with_whose_keys_it_has(path: Path) -> None:
    state, text = found(login(path, "walferry@WEST"))["source: keytab"]
    assert state == "wrong"
    assert re.search(
        r"holds no key of walferry@WEST \(on .*\). It holds keys of: walferry@EAST. Correct principal or keytab", text
    )


@pytest.mark.usefixtures("kdc")
def test_a_keytab_that_is_not_there_is_named(path: Path) -> None:
    path.unlink()
    state, text = found(login(path))["source: keytab"]
    assert state == "wrong"
    assert f"keytab {path} cannot be read: No such file or directory (on {socket.gethostname()})" in text


@pytest.mark.usefixtures("kdc")
def test_a_secret_that_every_user_can_read_is_worth_a_look(path: Path) -> None:
    path.chmod(0o640)
    assert f"source: {path}" not in found(login(path))
    path.chmod(0o644)
    assert found(login(path))[f"source: {path}"] == (
        "note", "every user of this machine can read it. chmod o-r, and give it to the user who runs this"
    )  # fmt: skip


def test_why_there_is_no_ticket_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def get(self: Credential) -> None:
        raise KerberosError(f"no ticket for {self}: Client not found in Kerberos database", "Compare principal and keytab")

    monkeypatch.setattr(Credential, "get", get)
    assert found(login(path))["source: ticket"] == (
        "wrong", "no ticket for walferry@EAST: Client not found in Kerberos database. Compare principal and keytab. "
    )  # fmt: skip


def test_a_kdc_that_does_not_answer_does_not_hold_up_the_rest(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(Credential, "get", lambda self: over.wait(60))
    monkeypatch.setattr(logins, "TICKET_SECONDS", 0.05)
    monkeypatch.setenv("KRB5_CONFIG", "/etc/walferry/krb5.conf")
    state, text = found(login(path))["source: ticket"]
    over.set()
    assert state == "wrong"
    assert text.startswith("no KDC of EAST has answered within ")
    assert "/etc/walferry/krb5.conf" in text


def test_certificates_and_passwords(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    own = authority.certificate("walferry", "localhost")
    password = tmp_path / "password"
    password.touch(mode=0o600)
    tls = Tls(ca=str(authority.pem), certificate=str(own.certificate), key=str(own.key))
    broken = Tls(ca=str(tmp_path / "nowhere.pem"))
    auth = ZooKeeperLogin(auth=ZooKeeperAuth.DIGEST, user="walferry", password_file=str(password), tls=broken)
    reported = found(Login(tls=tls, zookeeper=auth))
    assert reported["source: TLS"] == ("well", f"authorities of {authority.pem}, our certificate {own.certificate}. ")
    assert reported["source: ZooKeeper's TLS"][0] == "wrong"
    assert f"{broken.ca}: No such file" in reported["source: ZooKeeper's TLS"][1]
    assert reported["source: ZooKeeper's password"] == ("wrong", f"{password} is empty. ")
    password.write_text("hunter2\n")
    reported = found(Login(tls=tls, zookeeper=auth))
    assert reported["source: ZooKeeper's password"] == ("well", f"{password} can be read. ")
    assert "hunter2" not in str(reported)
