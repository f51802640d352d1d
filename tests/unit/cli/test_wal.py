"""`walferry wal`."""

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.unit.hbase.crypto.key_stores import JCEKS, KEYS, PASSWORD
from tests.unit.hbase.wal.compressing import GZ, Encoder, compress
from tests.unit.hbase.wal.encoder import PUT, Cell, Entry, encode_entry, encode_header, encode_wal, entry
from tests.unit.hbase.wal.sealed import encode_sealed, sealed_header, wrap_key
from tests.unit.hbase.wal.strategies import positions
from walferry.cli.main import main

ROOT = Path(__file__).resolve().parents[3]
SERVER = "host,16020,17"
WAL = "host%2C16020%2C17.{}"
ROW = b"row\x1b[31m\n"
TEXT = "row\\x1B[31m\\x0A"


def written(count: int, row: bytes = ROW, value: bytes = b"v") -> list[Entry]:
    return [entry(Cell(row, b"f", b"q", i, PUT, value), sequence_id=i, write_time=1_700_000_000_000 + i) for i in range(count)]


def put(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


@pytest.fixture(autouse=True)
def no_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_HBASE_SOURCE", raising=False)


class Ran:
    """What a command printed, and its exit status."""

    def __init__(self, capfd: pytest.CaptureFixture[str], *arguments: object) -> None:
        self.status = main(["wal", *map(str, arguments)])
        self.out, self.err = capfd.readouterr()

    @property
    def cells(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.mark.slow
def test_a_row_is_found_in_all_folders_of_a_cluster(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    other = written(1, b"other")[0]
    first = put(tmp_path / "oldWALs" / WAL.format(1), encode_wal([other, *written(2)]))
    put(tmp_path / "oldWALs" / WAL.format(2), encode_wal([other]))
    last = put(tmp_path / "WALs" / SERVER / WAL.format(3), encode_wal(written(1)))
    ran = Ran(capfd, "find", "--row", TEXT, "--json", tmp_path)
    offsets = positions([other, *written(2)])
    assert [(cell["wal"], cell["position"], cell["sequence_id"]) for cell in ran.cells] == [
        (f"file://{first}", offsets[1], 0), (f"file://{first}", offsets[2], 1), (f"file://{last}", offsets[0], 0),
    ]  # fmt: skip
    assert {(cell["row"], cell["server"], cell["table"]) for cell in ran.cells} == {(TEXT, SERVER, "t")}
    total = sum(path.stat().st_size for path in tmp_path.rglob("*.?"))
    assert ran.err == f"walferry: 3 cells in 2 of 3 WALs ({total:,} bytes)\n"
    assert ran.status == 0


def test_a_row_that_nobody_wrote_is_not_an_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    put(tmp_path / WAL.format(1), encode_wal(written(1)))
    ran = Ran(capfd, "find", "--row", "none", tmp_path)
    assert (ran.out, ran.status) == ("", 0)


def test_wals_of_other_times_are_not_read(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    wal = put(tmp_path / WAL.format(1_700_000_000_000), encode_wal(written(3)))
    put(tmp_path / WAL.format(1_800_000_000_000), b"not a WAL")
    ran = Ran(capfd, "find", "--row", TEXT, "--to", "2023-11-14T22:13:20.002", "--from", "1700000000001", "--json", tmp_path)
    assert [cell["write_time"] for cell in ran.cells] == [1_700_000_000_001]
    assert ran.err == f"walferry: 1 cells in 1 of 1 WALs ({wal.stat().st_size} bytes); 1 WALs are of other times\n"
    assert ran.status == 0


def test_a_corrupt_file_is_named_with_its_byte_and_the_others_are_read(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    entries, offsets = written(3), positions(written(3))
    data = bytearray(encode_wal(entries))
    data[offsets[2]] = 0  # the length of a key
    broken = put(tmp_path / WAL.format(1), bytes(data))
    put(tmp_path / WAL.format(2), encode_wal(entries))
    ran = Ran(capfd, "find", "--row", TEXT, "--json", tmp_path)
    assert [cell["sequence_id"] for cell in ran.cells] == [0, 1, 0, 1, 2]
    assert f"walferry: file://{broken} at byte {offsets[2]}: the length of a WALKey" in ran.err
    assert ran.status == 1


def test_a_torn_file_is_named_with_its_byte_after_its_whole_entries(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    torn = put(tmp_path / WAL.format(1), encode_wal(written(2), trailer=b"")[:-1])
    unclosed = put(tmp_path / WAL.format(2), encode_wal(written(1), trailer=b""))
    empty = put(tmp_path / WAL.format(3), b"")
    ran = Ran(capfd, "show", "--json", torn, unclosed, empty)
    assert [cell["sequence_id"] for cell in ran.cells] == [0, 0]
    reported = ran.err.splitlines()
    assert reported[0].startswith(f"walferry: file://{torn} at byte {positions(written(2))[1]}: the file ends early")
    assert reported[1] == f"walferry: file://{unclosed} is not closed: it may hold more than its {unclosed.stat().st_size} bytes"
    assert reported[2].startswith(f"walferry: file://{empty} is empty")
    assert ran.status == 0


def test_a_malformed_cluster_id_is_named_after_the_cells_before_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    entries = written(2)
    entries[1].key.cluster_ids.add().least_sig_bits = 1
    data = encode_header() + b"".join(map(encode_entry, entries))
    ran = Ran(capfd, "show", "--json", wal := put(tmp_path / WAL.format(1), data))
    assert len(ran.cells) == 1
    assert f"file://{wal} at byte {positions(entries)[1]}: a cluster id of the WALKey is malformed" in ran.err
    assert ran.status == 1


def test_files_that_cannot_be_opened_are_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ran = Ran(capfd, "show", tmp_path / "nothing", tmp_path, put(tmp_path / "text", b"hello"))
    assert [line.removeprefix(f"walferry: file://{tmp_path}") for line in ran.err.splitlines()][:2] == [
        "/nothing: there is no such file", " is a folder: `wal find` looks into folders",
    ]  # fmt: skip
    assert f"file://{tmp_path}/text at byte 0" in ran.err
    assert ran.status == 1


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ran = Ran(capfd, "find", "--row", "r", tmp_path / "nowhere")
    assert f"file://{tmp_path}/nowhere: there is no such file or folder" in ran.err
    assert ran.status == 1


def test_a_file_is_shown_from_a_position(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    wal, offsets = put(tmp_path / WAL.format(1), encode_wal(written(3))), positions(written(3))
    assert [cell["sequence_id"] for cell in Ran(capfd, "show", "--json", "--position", offsets[1], wal).cells] == [1, 2]
    ran = Ran(capfd, "show", "--position", offsets[1] + 1, wal)
    where = f"file://{wal} at byte {offsets[1] + 1}"
    assert ran.err == f"walferry: {where}: no entry begins here; the one at byte {offsets[1]} goes on beyond it\n"
    assert ran.status == 1


def test_compressed_files_are_read_like_plain_ones(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    data, offsets = compress(written(3), Encoder(tags=True, codec=GZ))
    put(tmp_path / WAL.format(1), data)
    ran = Ran(capfd, "find", "--row", TEXT, "--json", "--values", tmp_path)
    assert [(cell["position"], cell["next_position"]) for cell in ran.cells] == list(pairwise(offsets))
    assert {cell["value"] for cell in ran.cells} == {"v"}


@pytest.fixture
def sealed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An encrypted WAL, beside the key store `keys`, whose password is in the environment variable STORE."""
    (tmp_path / "keys").write_bytes(JCEKS)
    monkeypatch.setenv("STORE", PASSWORD)
    return put(tmp_path / WAL.format(1), encode_sealed(written(2), header=sealed_header(wrap_key(master=KEYS["JCEKS"]["hbase"]))))


def test_encrypted_files_are_read_with_a_key_store_of_the_command(sealed: Path, capfd: pytest.CaptureFixture[str]) -> None:
    store = f"jceks://{sealed.parent}/keys?passwordEnv=STORE"
    assert len(Ran(capfd, "show", "--json", "--key-provider", store, sealed).cells) == 2
    ran = Ran(capfd, "show", "--key-provider", store, "--key-name", "other", sealed)
    assert "there is no secret key 'other'" in ran.err
    assert ran.status == 1


def test_encrypted_files_are_read_with_the_key_store_of_the_source(
    sealed: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = {"wal_root": f"file://{sealed.parent}", "key_provider": f"jceks://{sealed.parent}/keys?passwordEnv=STORE"}
    monkeypatch.setenv("AIRFLOW_CONN_HBASE_SOURCE", json.dumps({"host": "zk", "extra": extra}))
    assert len(Ran(capfd, "find", "--row", TEXT, "--json").cells) == 2  # and the source's WALs are the default


def test_an_encrypted_file_without_a_key_is_named_and_others_are_read(sealed: Path, capfd: pytest.CaptureFixture[str]) -> None:
    put(sealed.with_name(WAL.format(2)), encode_wal(written(1)))
    ran = Ran(capfd, "find", "--row", TEXT, "--json", sealed.parent)
    assert len(ran.cells) == 1
    assert f"file://{sealed} at byte 0: the WAL is encrypted, and no key provider is given" in ran.err
    assert ran.status == 1


def test_a_key_provider_with_a_password_is_refused(sealed: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ran = Ran(capfd, "show", "--key-provider", f"jceks://{sealed.parent}/keys?password=secret", sealed)
    assert "--key-provider: the key provider holds a password" in ran.err
    assert "secret" not in ran.err
    assert ran.status == 1


def test_without_folders_and_without_a_source_the_command_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    ran = Ran(capfd, "find", "--row", "r")
    assert "AIRFLOW_CONN_HBASE_SOURCE is not set" in ran.err
    assert ran.status == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["find", "."], "one of --row and --row-prefix is required"),
        (["find", "--row", "\\x0", "."], "two hex digits must follow"),
        (["show", "--from", "yesterday", "."], "'yesterday' is not a time"),
        (["show", "--row", "a", "--row-prefix", "a", "."], "--row-prefix is not allowed with --row"),
        (["show"], "Missing argument 'FILE|URL...'"),
        (["find", "--row", "a", "--from", "2024-05-02", "--to", "2024-05-01", "."], "--from does not come before --to"),
        (["show", "--from", "5", "--to", "5", "wal"], "--from does not come before --to"),
    ],
)
def test_wrong_arguments_are_a_usage_error(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["wal", *arguments]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize("many", [1, pytest.param(40, marks=pytest.mark.slow)])
def test_a_reader_that_goes_away_ends_the_command_at_once_and_quietly(tmp_path: Path, many: int) -> None:
    data = encode_wal(written(20, value=bytes(50_000)))
    files = [put(tmp_path / WAL.format(number), data) for number in range(many)]
    command = [sys.executable, "-m", "walferry.cli", "wal", "show", "--values", *map(str, files)]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "plugins")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b"WAL file:///")
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 141


@pytest.mark.slow
def test_a_reader_of_both_outputs_that_goes_away_ends_the_command_as_well(tmp_path: Path) -> None:
    put(tmp_path / WAL.format(1), encode_wal(written(1)))
    command = [sys.executable, "-m", "walferry.cli", "wal", "find", "--row", "none", str(tmp_path)]  # prints to stderr only
    environment = os.environ | {"PYTHONPATH": str(ROOT / "plugins")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(60) == 141


@pytest.mark.slow
def test_memory_does_not_grow_with_what_is_printed(tmp_path: Path) -> None:
    wal = put(tmp_path / WAL.format(1), encode_header() + b"".join(map(encode_entry, written(1000, value=bytes(100_000)))))
    command = "import resource, sys; from walferry.cli.main import main; main(sys.argv[1:])"
    command += "; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"

    def peak(*arguments: object) -> int:
        run = subprocess.run(
            [sys.executable, "-c", command, "wal", "show", *map(str, arguments)],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=os.environ | {"PYTHONPATH": str(ROOT / "plugins")}, check=True,
        )  # fmt: skip
        return int(run.stderr.split()[-1]) << 10

    # 400 MB are printed, of a file of 100 MB.
    assert peak("--values", wal) - peak("--row", "none", wal) < 50 << 20
