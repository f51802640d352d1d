"""The fields of a connection that define the login to a cluster."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walferry.base.security.login import Kerberos, Login, Protection, Tls, ZooKeeperAuth, ZooKeeperLogin
from walferry.replication.source.cluster import SourceCluster, SourceError
from walferry.replication.source.connection import from_connection, from_text
from walferry.replication.source.logins import LOGIN_FIELDS, login_of

ROOT = {"wal_root": "hdfs://nn:8020/hbase"}
KERBEROS = {"principal": "walferry/etl1@EXAMPLE.COM", "keytab": "/etc/walferry.keytab"}
ALL: dict[str, Any] = {
    **KERBEROS,
    "protection": "privacy",
    "server_principals": ["hbase/_HOST@EXAMPLE.COM", "hm/_HOST@EXAMPLE.COM"],
    "hosts": ["*.west.example.com", "nn"],
    "tls_ca": "/tls/ca.pem",
    "tls_certificate": "/tls/me.pem",
    "tls_key": "/tls/me.key",
    "tls_key_password_file": "/tls/me.password",
    "zk_auth": "kerberos",
    "zk_server_principal": "zookeeper/_HOST@EXAMPLE.COM",
    "zk_tls_ca": "/tls/zk-ca.pem",
    "zk_tls_certificate": "/tls/zk.pem",
    "zk_tls_key": "/tls/zk.key",
    "zk_tls_key_password_file": "/tls/zk.password",
}
WHOLE = Login(
    kerberos=Kerberos(
        principal="walferry/etl1@EXAMPLE.COM", keytab="/etc/walferry.keytab", protection=Protection.PRIVACY,
        servers=("hbase/_HOST@EXAMPLE.COM", "hm/_HOST@EXAMPLE.COM"), hosts=("*.west.example.com", "nn"),
    ),
    tls=Tls(ca="/tls/ca.pem", certificate="/tls/me.pem", key="/tls/me.key", key_password_file="/tls/me.password"),
    zookeeper=ZooKeeperLogin(
        auth=ZooKeeperAuth.KERBEROS, server="zookeeper/_HOST@EXAMPLE.COM",
        tls=Tls(ca="/tls/zk-ca.pem", certificate="/tls/zk.pem", key="/tls/zk.key", key_password_file="/tls/zk.password"),
    ),
)  # fmt: skip


def test_a_connection_without_any_of_the_fields_is_for_an_unsecured_cluster() -> None:
    assert from_connection("zk1", None, ROOT).login == Login()


def test_each_field_finds_its_place_from_json_as_from_a_uri() -> None:
    as_json = json.dumps({"conn_type": "hbase_source", "host": "zk1", "extra": {**ROOT, **ALL}})
    as_text = json.dumps({"conn_type": "hbase_source", "host": "zk1", "extra": json.dumps({**ROOT, **ALL})})
    lists = {"server_principals": "hbase/_HOST@EXAMPLE.COM, hm/_HOST@EXAMPLE.COM", "hosts": "*.west.example.com,nn"}
    texts = {**ROOT, **ALL, **lists}
    as_uri = "hbase-source://zk1/?" + "&".join(f"{name}={quote(value, safe='')}" for name, value in texts.items())
    assert {from_text(text).login for text in (as_json, as_text, as_uri)} == {WHOLE}
    assert set(ALL) | {"user", "zk_user", "zk_password_file"} == set(LOGIN_FIELDS)


def test_a_principal_logs_in_to_zookeeper_too_unless_the_connection_says_otherwise() -> None:
    assert login_of("c", KERBEROS).zookeeper == ZooKeeperLogin(auth=ZooKeeperAuth.KERBEROS)
    assert login_of("c", {**KERBEROS, "zk_auth": "none"}).zookeeper == ZooKeeperLogin()
    assert login_of("c", {}).zookeeper == ZooKeeperLogin()


def test_a_password_for_zookeeper_is_in_a_file() -> None:
    found = login_of("c", {"zk_auth": "digest", "zk_user": "walferry", "zk_password_file": "/etc/zk.password"}).zookeeper
    assert found == ZooKeeperLogin(auth=ZooKeeperAuth.DIGEST, user="walferry", password_file="/etc/zk.password")


def test_the_protection_that_is_accepted_is_the_connection_s_if_it_names_one() -> None:
    kerberos = login_of("c", KERBEROS).kerberos
    assert kerberos == Kerberos(principal="walferry/etl1@EXAMPLE.COM", keytab="/etc/walferry.keytab", protection=None)
    weak = login_of("c", {**KERBEROS, "protection": "authentication"}).kerberos
    assert weak is not None
    assert weak.of_namenodes is Protection.AUTHENTICATION


@pytest.mark.parametrize(
    ("extra", "what"),
    [
        ({"keytab": "/k"}, "extra has keytab, but no principal"),
        ({"protection": "privacy"}, "extra has protection, but no principal"),
        ({"server_principals": "hbase/_HOST@R"}, "extra has server_principals, but no principal"),
        ({"principal": "walferry"}, "principal is 'walferry'; it must be name@REALM"),
        ({"principal": ""}, "principal is ''; it must be"),
        ({"principal": 5}, "principal is int; it must be"),
        ({"principal": "walferry/_HOST@R"}, "_HOST stands for a server's host, so only server_principals may have it"),
        ({**KERBEROS, "user": "etl"}, "extra has both user and principal"),
        ({**KERBEROS, "protection": "auth-conf"}, "protection is 'auth-conf'; it must be the weakest that is accepted, one of"),
        ({**KERBEROS, "server_principals": "hbase/_HOST"}, "server_principals has 'hbase/_HOST'; each must be service/_HOST@"),
        ({**KERBEROS, "server_principals": {"a": 1}}, "server_principals has dict; each must be"),
        ({"hosts": "nn"}, "extra has hosts, but no principal"),
        ({**KERBEROS, "hosts": "nn:8020"}, "hosts has 'nn:8020'; each must be a host's name, or a pattern such as"),
        ({**KERBEROS, "hosts": ["nn", ""]}, "hosts has ''; each must be"),
        ({**KERBEROS, "hosts": "n[nm]"}, "hosts has 'n[nm]'; each must be"),
        ({"tls_key": "/k"}, "extra has tls_key, but no tls_ca"),
        ({"tls_ca": "/c", "tls_key": "/k"}, "extra has tls_key, but no tls_certificate"),
        ({"tls_ca": "/c", "tls_key_password_file": "/p"}, "extra has tls_key_password_file, but no tls_certificate"),
        ({"zk_tls_certificate": "/c"}, "extra has zk_tls_certificate, but no zk_tls_ca"),
        ({"zk_auth": "sasl"}, "zk_auth is 'sasl'; it must be one of 'none', 'kerberos', 'digest'"),
        ({"zk_auth": "kerberos"}, "zk_auth is 'kerberos', which takes a principal"),
        ({"zk_auth": "digest"}, "it has no zk_user"),
        ({"zk_auth": "digest", "zk_user": "walferry"}, "it has no zk_password_file"),
        ({"zk_user": "walferry"}, "extra has zk_user, which is for zk_auth = 'digest', but zk_auth is 'none'"),
        ({**KERBEROS, "zk_password_file": "/p"}, "extra has zk_password_file, which is for zk_auth = 'digest'"),
        ({"zk_server_principal": "zookeeper/_HOST"}, "which is for zk_auth = 'kerberos', but zk_auth is 'none'"),
        ({**KERBEROS, "zk_server_principal": "a b"}, "zk_server_principal is 'a b'; it must be service/_HOST"),
        ({"zk_auth": "digest", "zk_user": "a:b", "zk_password_file": "/p"}, "zk_user is 'a:b'"),
    ],
)
def test_an_error_names_the_connection_and_the_field(extra: dict[str, Any], what: str) -> None:
    with pytest.raises(SourceError, match=r"^connection 'prod': ") as error:
        from_connection("zk1", None, {**ROOT, **extra}, "prod")
    assert what in str(error.value)


@pytest.mark.parametrize("secret", ["hunter2", "etc/hunter2", "file:///hunter2", "-----BEGIN KEY-----hunter2", "/hunter2\n"])
@pytest.mark.parametrize("field", ["keytab", "tls_key", "tls_key_password_file", "tls_ca", "zk_tls_key", "zk_password_file"])
def test_what_stands_in_place_of_a_path_is_refused_and_not_repeated(field: str, secret: str) -> None:
    digest = {"zk_auth": "digest", "zk_user": "walferry", "zk_password_file": "/p"}
    extra = {"zk_password_file": digest, "keytab": KERBEROS}.get(field, {**ALL})
    with pytest.raises(SourceError, match=f"connection 'prod': extra's {field} is not an absolute path") as error:
        from_connection("zk1", None, {**ROOT, **extra, field: secret}, "prod")
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize("name", ["password", "tls_key_password", "zk_password", "keytab_base64"])
def test_a_field_for_a_secret_does_not_exist_and_its_value_is_not_repeated(name: str) -> None:
    with pytest.raises(SourceError, match=f"extra has {name}, which Walferry does not know") as error:
        from_connection("zk1", None, {**ROOT, **KERBEROS, name: "hunter2"}, "prod")
    assert "hunter2" not in str(error.value)


def test_a_password_of_the_connection_is_refused_beside_a_login_and_not_repeated() -> None:
    text = json.dumps({"host": "zk1", "password": "hunter2", "extra": {**ROOT, **KERBEROS}})
    with pytest.raises(SourceError, match=r"connection 'prod': it has a password.*zk_password_file") as error:
        from_text(text, "prod")
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize("odd", ["a\ud800", "a\x1b[31m", "a\0", "a" * 10_000])
@pytest.mark.parametrize(
    ("field", "extra", "form"),
    [
        ("principal", {}, "{}@R"),
        ("server_principals", KERBEROS, "{}/_HOST@R"),
        ("zk_server_principal", KERBEROS, "{}/_HOST"),
        ("zk_user", {"zk_auth": "digest", "zk_password_file": "/p"}, "{}"),
        ("user", {}, "{}"),
    ],
)
def test_a_name_can_be_sent_and_shown(field: str, extra: dict[str, Any], form: str, odd: str) -> None:
    with pytest.raises(SourceError, match=f"connection 'prod': extra's {field} ") as error:
        login_of("connection 'prod'", {**extra, field: form.format(odd)})
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 500


paths = st.text("abc/.", max_size=8).map("/".__add__)
maybe = st.none() | paths
tls = st.none() | st.builds(Tls, ca=paths, certificate=maybe, key=maybe, key_password_file=maybe)
logins = st.builds(
    Login,
    user=st.none() | st.text(max_size=5),
    kerberos=st.none() | st.builds(
        Kerberos, principal=st.none() | st.text(max_size=9), keytab=maybe, protection=st.sampled_from(Protection),
        servers=st.lists(st.text(max_size=9), max_size=2).map(tuple),
    ),
    tls=tls,
    zookeeper=st.builds(
        ZooKeeperLogin, auth=st.sampled_from(ZooKeeperAuth), server=st.text(max_size=9), user=st.none() | st.text(max_size=5),
        password_file=maybe, tls=tls,
    ),
)  # fmt: skip
texts = st.text(max_size=6)


@given(login=logins, peer_clusters=st.dictionaries(texts, logins, max_size=2), ids=st.dictionaries(texts, texts, max_size=2))
def test_logins_survive_the_way_to_a_spark_job(login: Login, peer_clusters: dict[str, Login], ids: dict[str, str]) -> None:
    source = SourceCluster(
        quorum="zk1:2181",
        wal_root="file:///hbase",
        login=login,
        peer_clusters=peer_clusters,
        peer_conn_ids=ids,
        peer_cluster_problems=ids,
    )
    assert SourceCluster.from_json(source.to_json()) == source
