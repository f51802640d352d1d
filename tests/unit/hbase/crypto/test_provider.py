"""The key provider reads Java's key stores and unwraps the keys in WALs' headers. Its errors help and show no secret."""

from __future__ import annotations

import pickle
import traceback
from pathlib import Path

import pytest

from tests.unit.hbase.crypto import key_stores
from tests.unit.hbase.crypto.key_stores import KEYS, PASSWORD, WAL_PASSWORD
from tests.unit.hbase.wal.sealed import WAL_KEY, wrap_key
from walferry.hbase.crypto.provider import KeyProvider, KeyProviderError, KeyStoreUrl, parse_properties

STORES = ("JCEKS", "PKCS12", "LEGACY")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a space in its name, with the key stores and a password file."""
    folder = tmp_path / "key stores"
    folder.mkdir()
    for name in (*STORES, "JKS"):
        (folder / name).write_bytes(getattr(key_stores, name))
    (folder / "passwords").write_text(f"# of the keys\nhbase={PASSWORD}\nwal : {WAL_PASSWORD}\ntripledes={PASSWORD}\nabsent=x\n")
    return folder


def with_file(folder: Path, store: str, *names: str, passwords: str = "passwords") -> KeyProvider:
    return KeyProvider(f"jceks://{folder}/{store}?passwordFile={folder}/{passwords}".replace(" ", "%20"), names)


def with_variable(folder: Path, store: str, *names: str, password: str = PASSWORD) -> KeyProvider:
    return KeyProvider(f"jceks://{folder}/{store}?passwordEnv=STORE".replace(" ", "%20"), names, {"STORE": password})


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("name", ["hbase", "HBase"])
def test_a_wal_s_key_is_unwrapped_with_the_key_of_that_name_in_a_store_of_java_s(folder: Path, store: str, name: str) -> None:
    wrapped = wrap_key(master=KEYS[store]["hbase"])
    assert with_variable(folder, store, name)(wrapped) == WAL_KEY


@pytest.mark.parametrize("store", STORES)
def test_the_key_that_fits_is_found_among_several_and_its_size_is_its_own(folder: Path, store: str) -> None:
    (folder / "passwords").write_text(f"hbase={PASSWORD}\nwal={WAL_PASSWORD if store == 'JCEKS' else PASSWORD}\n")
    provider = with_file(folder, store, "absent", "hbase", "wal")
    for key in KEYS[store].values():
        assert provider(wrap_key(master=key)) == WAL_KEY


def test_the_name_is_hbase_unless_another_is_given(folder: Path) -> None:
    assert with_file(folder, "JCEKS")(wrap_key(master=KEYS["JCEKS"]["hbase"])) == WAL_KEY


@pytest.mark.parametrize("algorithm", ["MD5", "SHA-1", "SHA-256", "sha-384", "SHA-512"])
def test_the_configured_hash_shows_the_right_key(folder: Path, algorithm: str) -> None:
    provider = with_variable(folder, "PKCS12")
    assert provider(wrap_key(master=KEYS["PKCS12"]["hbase"], hash_algorithm=algorithm)) == WAL_KEY
    with pytest.raises(KeyProviderError, match="this WAL's key is not wrapped with key 'hbase'"):
        provider(wrap_key(master=b"another clusters", hash_algorithm=algorithm))


def test_the_error_says_what_is_wrong_with_each_key_and_what_to_do(folder: Path) -> None:
    (folder / "passwords").write_text(f"hbase={PASSWORD}\nwal=wrong\ntripledes={PASSWORD}\nabsent=x\n")
    with pytest.raises(KeyProviderError) as e:
        with_file(folder, "JCEKS", "absent", "wal", "server", "tripledes", "hbase")(wrap_key())
    text = str(e.value)
    assert text.startswith(f"key store {folder}/JCEKS: ")
    assert "there is no secret key 'absent' in it (there are: 'hbase', 'tripledes', 'wal')" in text
    assert f"the password for 'wal' in password file {folder}/passwords does not open it" in text
    assert "key 'tripledes' cannot be read (it is a key of 192 bits for DESede" in text
    assert "not wrapped with key 'hbase'" in text
    assert "hbase.crypto.master.key.name" in text


@pytest.mark.parametrize("store", STORES)
def test_a_wrong_password_of_the_store_is_reported(folder: Path, store: str) -> None:
    with pytest.raises(KeyProviderError, match=r"(JCEKS|PKCS12|LEGACY): environment variable STORE does not have its password"):
        with_variable(folder, store, password="Opensesame")(wrap_key())


@pytest.mark.long
@pytest.mark.parametrize("store", STORES)
def test_wrong_passwords_of_keys_are_reported_whatever_they_decrypt_to(folder: Path, store: str) -> None:
    for n in range(8):
        (folder / "passwords").write_text(f"hbase=wrong{n}\n")
        with pytest.raises(KeyProviderError, match=r"the password for 'hbase' in password file .* does not open it"):
            with_file(folder, store)(wrap_key())


def test_a_key_without_a_password_in_the_file_is_reported(folder: Path) -> None:
    (folder / "passwords").write_text("")
    with pytest.raises(KeyProviderError, match="passwords has no password for 'hbase'"):
        with_file(folder, "JCEKS")(wrap_key())


def test_a_jks_store_has_no_secret_keys(folder: Path) -> None:
    with pytest.raises(KeyProviderError, match="there are: none; a JKS store cannot have any"):
        with_file(folder, "JKS")(wrap_key())


def test_files_that_are_not_there_are_named(folder: Path) -> None:
    with pytest.raises(KeyProviderError, match=r"key store .*/nothing: No such file or directory. It must be there on each"):
        with_file(folder, "nothing")(wrap_key())
    with pytest.raises(KeyProviderError, match=r"password file .*/nothing: No such file"):
        with_file(folder, "JCEKS", passwords="nothing")(wrap_key())
    with pytest.raises(KeyProviderError, match="environment variable STORE is not set"):
        KeyProvider(f"jceks://{folder}/JCEKS?passwordEnv=STORE", (), {})(wrap_key())


@pytest.mark.slow
@pytest.mark.parametrize("store", STORES)
def test_a_store_cut_or_changed_anywhere_gives_an_error_of_ours_or_the_key(folder: Path, store: str) -> None:
    whole = getattr(key_stores, store)
    texts = []
    for at in range(0, len(whole), 29):
        for data in (whole[:at], whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :]):
            (folder / store).write_bytes(data)
            try:
                assert with_file(folder, store)(wrap_key(master=KEYS[store]["hbase"])) == WAL_KEY
            except KeyProviderError as e:
                texts.append(str(e))
    assert texts
    assert all(text.startswith(f"key store {folder}/") for text in texts)


@pytest.mark.parametrize(
    ("wrapped", "what"),
    [
        (b"", "not a wrapped key"),
        (b"\x05\x0a\x03AES", "not a wrapped key"),
        (wrap_key(algorithm="Blowfish"), "'Blowfish'"),
        (wrap_key(hash_algorithm="MD2", digest=b"1"), "hashed with 'MD2'"),
        (wrap_key()[:-1], "not a wrapped key"),
        (wrap_key(hash_algorithm=None), "not a wrapped key"),
        (wrap_key().replace(b"MD5", b"MD\xff"), "not a wrapped key"),
        (wrap_key(b"12345"), "5 of 5 bytes"),
    ],
)
def test_a_header_s_key_that_is_not_a_wrapped_key_is_reported(folder: Path, wrapped: bytes, what: str) -> None:
    with pytest.raises(KeyProviderError, match=what):
        with_variable(folder, "PKCS12")(wrapped)


@pytest.mark.parametrize(
    ("url", "what"),
    [
        ("jceks:///k?password=hunter2", r"holds a password\. This URL travels .*\?passwordFile="),
        ("jceks:///k?Password=hunter2&passwordFile=/p", "holds a password"),
        ("jceks:///k?pass%77ord=hunter2", "holds a password"),
        ("jceks:///k?pass%2577ord=hunter2", "holds a password"),
        ("jceks://u:hunter2@/k?passwordFile=/p", "a user name or a password"),
        ("jceks:///k?hunter2", "unknown or empty"),
        ("jceks:///k?storepass=hunter2", "unknown or empty"),
        ("jceks:///k", "must have one of passwordFile, passwordEnv"),
        ("jceks:///k?passwordFile=/p&passwordEnv=P", "must have one of"),
        ("jceks:///k?passwordFile=/p#hunter2", "must have one of"),
        ("jceks:hunter2", "must be a URL such as"),
        ("hdfs:///k?passwordFile=/p", "of type jceks, jks, pkcs12"),
        ("jceks://[hunter2/k?passwordFile=/p", "not a URL"),
    ],
)
def test_a_wrong_url_or_one_with_a_password_is_refused_without_repeating_it(url: str, what: str) -> None:
    with pytest.raises(KeyProviderError, match=what) as e:
        KeyProvider(url)
    assert "hunter2" not in "".join(traceback.format_exception(e.value))


def test_a_url_of_hbase_s_is_read_as_hbase_reads_it() -> None:
    url = KeyStoreUrl.parse("JCEKS:///etc/a%20b/k.ks?passwordfile=%2Fetc%2Fpw+1")
    assert url == KeyStoreUrl("/etc/a b/k.ks", "/etc/pw 1", None)


def test_a_provider_shows_and_sends_no_key_and_no_password(folder: Path) -> None:
    provider = with_variable(folder, "PKCS12")
    provider(wrap_key(master=KEYS["PKCS12"]["hbase"]))
    sent = pickle.dumps(provider)
    assert repr(pickle.loads(sent)) == repr(provider)
    for secret in (PASSWORD.encode(), KEYS["PKCS12"]["hbase"], WAL_KEY):
        assert secret not in sent
        assert repr(secret)[2:-1] not in repr(provider)


def test_properties_are_read_as_java_reads_them() -> None:
    data = b"""
    # comment=1
  ! also = 2
a=1
b : two words \t
  c   3
d\\ e=\\u00e4\\t\\\\
f=one \\
   line
g
h==x
a=last
caf\xe9=\xe9"""
    assert parse_properties(data) == {
        "a": "last",
        "b": "two words \t",
        "c": "3",
        "d e": "ä\t\\",
        "f": "one line",
        "g": "",
        "h": "=x",
        "café": "é",
    }
