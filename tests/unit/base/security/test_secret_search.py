"""The search for secrets finds them: else the tests that find none would say nothing."""

from __future__ import annotations

import base64
from pathlib import Path
from urllib.parse import quote_from_bytes

from hypothesis import given
from hypothesis import strategies as st

from tests.secret_search import files_under, leaked

secrets = st.binary(min_size=8, max_size=40)


@given(secret=secrets, before=st.binary(max_size=20), after=st.binary(max_size=20))
def test_a_secret_is_found_in_each_form_wherever_it_stands(secret: bytes, before: bytes, after: bytes) -> None:
    whole = before + secret + after
    for text in (
        whole, whole.hex(), whole.hex().upper(), base64.b64encode(whole), base64.urlsafe_b64encode(whole),
        before + quote_from_bytes(secret).encode() + after,
    ):  # fmt: skip
        assert leaked({"key": secret}, {"log": text}) == ["key in log"]


def test_a_password_is_found_in_what_python_shows() -> None:
    assert leaked({"password": b"hunter2\xff"}, {"log": repr({"p": b"hunter2\xff"})}) == ["password in log"]
    assert leaked({"password": b"hunter2"}, {"log": "all is well", "xcom": "{}"}) == []


def test_files_are_searched_but_for_those_that_hold_the_secrets(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a").write_text("hunter2")
    (tmp_path / "password").write_text("hunter2")
    assert list(files_under(tmp_path, [tmp_path / "password"])) == [str(tmp_path / "logs" / "a")]
