"""Clusters without Kerberos need no Kerberos libraries, and nothing loads them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from walferry.base.security import gssapi
from walferry.base.security.gssapi import Credential, KerberosMissing
from walferry.base.security.login import Kerberos

EVERYTHING = """
import importlib, pkgutil, walferry
for module in pkgutil.walk_packages(walferry.__path__, "walferry."):
    if not module.name.startswith(("walferry.airflow", "walferry.cli.__main__")):
        importlib.import_module(module.name)
print([line.split()[-1] for line in open("/proc/self/maps") if "gssapi" in line or "libkrb5" in line])
"""


@pytest.mark.slow
def test_no_module_loads_the_libraries_of_kerberos():
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", EVERYTHING], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stderr


def test_a_machine_without_them_says_what_to_install(monkeypatch):
    monkeypatch.setattr(gssapi, "LIBRARIES", ("libgssapi_no_such.so",))
    gssapi.library.cache_clear()
    try:
        with pytest.raises(KerberosMissing, match=r"no MIT Kerberos libraries.*libgssapi-krb5-2 on Debian"):
            Credential(Kerberos(principal="walferry@EXAMPLE.COM")).acquire()
    finally:
        gssapi.library.cache_clear()
