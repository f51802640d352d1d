"""The NameNodes of a URL are those that the Hadoop configuration has for it. Each name that HBase allows is one part of a path on
HDFS, as it is in Hadoop's own paths, in which nothing is encoded.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walferry.hbase.files.hdfs import new_file_system
from walferry.hbase.files.namenodes import address, name_services, namenodes, path_of, server_of, web_addresses
from walferry.hbase.names import family_folder

SETTINGS = {
    "dfs.nameservices": "east,west",
    "dfs.ha.namenodes.east": "nn1, nn2",
    "dfs.namenode.rpc-address.east.nn1": "nn1.example.org:8020",
    "dfs.namenode.rpc-address.east.nn2": "nn2.example.org:9000",
    "dfs.namenode.rpc-address.west": "nn3.example.org:8020",
    "dfs.namenode.rpc-address.Prod-HA": "NN5.example.org:8020",
    "fs.viewfs.mounttable.ClusterX.link./hbase": "hdfs://Prod-HA/hbase",
    "dfs.ha.namenodes.odd": "nn1,nn2",
    "dfs.namenode.rpc-address.odd.nn1": "${host}:8020",
    "fs.viewfs.mounttable.all.link./hbase": "hdfs://east/hbase",
    "fs.viewfs.mounttable.all.linkFallback": "hdfs://nn4.example.org:8020/",
}


@pytest.fixture(params=["HADOOP_CONF_DIR", "HADOOP_HOME"])
def environ(request: pytest.FixtureRequest, tmp_path: Path) -> Mapping[str, str]:
    folder = tmp_path if request.param == "HADOOP_CONF_DIR" else tmp_path / "etc/hadoop"
    folder.mkdir(parents=True, exist_ok=True)
    entries = "".join(f"<property><name>{k}</name><value> {v} </value></property>" for k, v in SETTINGS.items())
    (folder / "hdfs-site.xml").write_text(f"<configuration>{entries}</configuration>")
    (folder / "core-site.xml").write_text("<configuration><property>")  # broken
    return {request.param: str(tmp_path)}


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("hdfs://nn:8020/hbase", [("nn", 8020)]),
        ("hdfs://[::1]:8020/hbase", [("::1", 8020)]),
        ("hdfs://east/hbase", [("nn1.example.org", 8020), ("nn2.example.org", 9000)]),
        ("hdfs://west/hbase", [("nn3.example.org", 8020)]),
        ("hdfs://Prod-HA/hbase", [("NN5.example.org", 8020)]),
        ("hdfs://hbase@west/hbase", [("nn3.example.org", 8020)]),
        ("viewfs://ClusterX/hbase", [("NN5.example.org", 8020)]),
        ("hdfs://odd/hbase", []),
        ("hdfs://nowhere/hbase", []),
        ("viewfs://all/hbase", [("nn1.example.org", 8020), ("nn2.example.org", 9000), ("nn4.example.org", 8020)]),
        ("viewfs://none/hbase", []),
    ],
)
def test_a_url_leads_to_namenodes(environ: Mapping[str, str], url: str, expected: list[tuple[str, int]]) -> None:
    assert namenodes(url, environ) == expected


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("hdfs://nn:8020/hbase", {}),
        ("hdfs://east/hbase", {"east": {"nn1": ("nn1.example.org", 8020), "nn2": ("nn2.example.org", 9000)}}),
        ("hdfs://west/hbase", {}),
        ("hdfs://odd/hbase", {}),
        ("viewfs://all/hbase", {"east": {"nn1": ("nn1.example.org", 8020), "nn2": ("nn2.example.org", 9000)}}),
    ],
)
def test_a_url_leads_to_name_services(
    environ: Mapping[str, str], url: str, expected: dict[str, dict[str, tuple[str, int]]]
) -> None:
    assert name_services(url, environ) == expected


def test_without_a_configuration_only_a_host_with_a_port_is_one() -> None:
    assert namenodes("hdfs://east/hbase", {}) == []
    assert namenodes("hdfs://nn:8020/hbase", {}) == [("nn", 8020)]


def test_entities_are_not_expanded_without_end_nor_read_from_files(tmp_path: Path) -> None:
    entities = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">' for i in range(1, 10))
    bomb = f'<!DOCTYPE c [<!ENTITY e0 "{"x" * 1000}">{entities}]><c><property>&e9;</property></c>'
    (tmp_path / "core-site.xml").write_text(bomb)
    (tmp_path / "hdfs-site.xml").write_text(
        '<!DOCTYPE c [<!ENTITY f SYSTEM "file:///etc/passwd">]><c><property>&f;</property></c>'
    )
    assert namenodes("hdfs://ns/hbase", {"HADOOP_CONF_DIR": str(tmp_path)}) == []


@pytest.mark.parametrize(
    ("url", "settings", "expected"),
    [
        ("hdfs://nn:8020/hbase", {"dfs.namenode.http-address": "0.0.0.0:9870"}, ["nn:9870"]),
        (
            "hdfs://east/hbase",
            {
                "dfs.ha.namenodes.east": "a,b",
                "dfs.namenode.http-address.east.a": "nn1:9870",
                "dfs.namenode.http-address.east.b": "nn2:9870",
            },
            ["nn1:9870", "nn2:9870"],
        ),
        ("hdfs://nn:8020/hbase", {}, []),
    ],
)
def test_a_url_leads_to_the_web_servers_of_its_namenodes(
    tmp_path: Path, url: str, settings: dict[str, str], expected: list[str]
) -> None:
    entries = "".join(f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items())
    (tmp_path / "hdfs-site.xml").write_text(f"<configuration>{entries}</configuration>")
    assert web_addresses(url, {"HADOOP_CONF_DIR": str(tmp_path)}) == expected


@pytest.mark.parametrize("root", ["hdfs:///hbase", "hdfs:/hbase", "hdfs:///"])
@pytest.mark.parametrize("default", ["hdfs://nn:8020", "hdfs://east", "hdfs://[::1]:9000/", "hdfs://hbase@Prod-HA"])
def test_a_url_without_a_host_means_the_default_file_system(tmp_path: Path, root: str, default: str) -> None:
    entries = "".join(f"<property><name>{k}</name><value>{v}</value></property>" for k, v in SETTINGS.items())
    (tmp_path / "hdfs-site.xml").write_text(f"<configuration>{entries}</configuration>")
    site = f"<configuration><property><name>fs.defaultFS</name><value>{default}</value></property></configuration>"
    (tmp_path / "core-site.xml").write_text(site)
    environ = {"HADOOP_CONF_DIR": str(tmp_path)}
    named = f"{default.rstrip('/')}/hbase"
    assert namenodes(root, environ) == namenodes(named, environ) != []
    assert name_services(root, environ) == name_services(named, environ)
    assert server_of(root, environ) == server_of(named, environ)
    assert namenodes("viewfs:///hbase", environ) == []


def test_a_url_without_a_host_leads_nowhere_if_the_default_is_no_hdfs(environ: Mapping[str, str]) -> None:
    assert namenodes("hdfs:///hbase", environ) == []
    assert server_of("hdfs:///hbase", environ) == ""


def test_an_address_of_ipv6_stands_in_brackets() -> None:
    assert (address("::1", 8020), address("nn", 8020)) == ("[::1]:8020", "nn:8020")


def test_namenodes_with_addresses_of_ipv6_are_found(tmp_path: Path) -> None:
    settings = {
        "dfs.ha.namenodes.six": "a",
        "dfs.namenode.rpc-address.six.a": "[2001:db8::1]:8020",
        "dfs.namenode.http-address.six.a": "[2001:db8::1]:9870",
    }
    entries = "".join(f"<property><name>{k}</name><value>{v}</value></property>" for k, v in settings.items())
    (tmp_path / "hdfs-site.xml").write_text(f"<configuration>{entries}</configuration>")
    environ = {"HADOOP_CONF_DIR": str(tmp_path)}
    assert namenodes("hdfs://six/hbase", environ) == [("2001:db8::1", 8020)]
    assert name_services("hdfs://six/hbase", environ) == {"six": {"a": ("2001:db8::1", 8020)}}
    assert web_addresses("hdfs://six/hbase", environ) == ["[2001:db8::1]:9870"]


NAMENODE = "hdfs://nn.example.org:8020"
HDFS = new_file_system(NAMENODE, {})
# ColumnFamilyDescriptorBuilder.isLegalColumnFamilyName looks at bytes: none is a control character of ASCII, or : / \
FAMILY_BYTES = sorted(set(range(0x20, 0x100)) - {0x7F, *b":/\\"})
CHARACTERS = [chr(code) for code in range(0x20, 0x3000) if code != 0x7F and chr(code) not in ":/\\"]
# TableName.isLegalTableQualifierName: letters, digits, _ - and . ; Java's letters are those with Unicode's property Alphabetic,
# to which some marks belong.
TABLES = st.text(st.characters(categories=["L", "Nd", "Nl", "Mc"], include_characters="_-."), min_size=1).filter(
    lambda name: name[0] not in ".-"
)
FAMILIES = st.one_of(
    st.text(st.sampled_from(CHARACTERS), min_size=1).map(str.encode), st.lists(st.sampled_from(FAMILY_BYTES)).map(bytes)
).filter(lambda family: family[:1] not in (b"", b"."))


def stripped(url: str) -> str:
    """What the client of HDFS is asked for."""
    return str(HDFS._strip_protocol(url))


@pytest.mark.parametrize("place", ["{}", "{}0", "L{}", "L{}0"])
def test_a_family_with_any_character_is_one_folder_on_hdfs(place: str) -> None:
    families = [place.format(chr(byte)) for byte in FAMILY_BYTES]
    for family in families:
        if family.startswith("."):
            continue
        path = f"/hbase/data/default/t/5f1c0a/{family_folder(family.encode())}/0a1b2c"
        assert stripped(f"{NAMENODE}{path}") == stripped(path) == path, family
        assert path.count("/") == 7, family


@given(TABLES, FAMILIES)
def test_paths_of_tables_and_families_are_taken_literally(table: str, family: bytes) -> None:
    path = f"/hbase/data/{table.replace('-', '_').replace('.', '_')}/{table}/5f1c0a/{family_folder(family)}/0a1b2c"
    for root in (NAMENODE, "hdfs://cluster", "hdfs://", "hdfs:", "viewfs://table", "hdfs://user@[2001:db8::1]:8020"):
        assert path_of(f"{root}{path}") == path
    assert stripped(f"{NAMENODE}{path}") == stripped(path) == path


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("hdfs://nn", "/"),
        ("hdfs://nn/", "/"),
        ("hdfs://nn/a/", "/a"),
        ("/a//b", "/a//b"),
        ("hdfs:///a", "/a"),
        ("hdfs:/a", "/a"),
        ("/x/hdfs://y", "/x/hdfs://y"),
        ("hdfs://nn/\t a\n", "/\t a\n"),
        ("hdfs://nn/a;b?c#d%41[e", "/a;b?c#d%41[e"),
    ],
)
def test_a_path_is_what_follows_the_host(url: str, path: str) -> None:
    assert path_of(url) == path
