"""The metadata by which Airflow knows the provider: of Airflow's own form, and true to the classes that are there."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import airflow
import jsonschema
import pytest
from airflow.sdk import BaseHook, BaseNotifier, BaseOperator, BaseOperatorLink, BaseSensorOperator
from airflow.sdk.bases.decorator import DecoratedOperator
from airflow.triggers.base import BaseTrigger

import walferry.airflow
from tests.unit.airflow.provider_page import PAGE, documented, of_kind, parameters_of, taken_by
from walferry.airflow.hooks.hbase import HBaseSourceHook
from walferry.airflow.options import descriptions
from walferry.airflow.provider import INTEGRATION, get_provider_info

SCHEMA: dict[str, Any] = json.loads((Path(airflow.__file__).parent / "provider_info.schema.json").read_text())
INFO = get_provider_info()


def _is(cls: type, *but: type) -> Callable[[type], bool]:
    return lambda each: issubclass(each, cls) and not issubclass(each, but)


KINDS: Mapping[str, Callable[[type], bool]] = {
    "operators": _is(BaseOperator, BaseSensorOperator, DecoratedOperator),  # those of decorators have no names of their own
    "sensors": _is(BaseSensorOperator),
    "triggers": _is(BaseTrigger),
    "hooks": _is(BaseHook),
}


def _classes() -> Iterator[type]:
    for module in pkgutil.walk_packages(walferry.airflow.__path__, "walferry.airflow."):
        for _, each in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if each.__module__ == module.name and not each.__name__.startswith("_"):
                yield each


CLASSES = list(_classes())


def _of_kind(kind: str) -> list[type]:
    """The classes of a kind that are no bases of others."""
    bases = {base for each in CLASSES for base in each.__mro__[1:]}
    return [each for each in CLASSES if KINDS[kind](each) and each not in bases]


def test_the_metadata_has_the_form_that_airflow_s_schema_asks_for_and_no_entry_that_it_does_not_know() -> None:
    jsonschema.validate(INFO, SCHEMA)
    assert INFO.keys() <= SCHEMA["properties"].keys()
    assert "plugins" not in INFO  # the entry point of the package brings it, and Airflow would load it twice


@pytest.mark.parametrize("kind", KINDS)
def test_each_class_of_a_kind_is_in_a_module_that_is_named_and_each_such_module_has_one(kind: str) -> None:
    (entry,) = INFO[kind]
    assert entry["integration-name"] == INTEGRATION == INFO["integrations"][0]["integration-name"]
    assert entry["python-modules"] == sorted({each.__module__ for each in _of_kind(kind)})


def test_links_are_named_and_there_are_no_notifiers_to_name() -> None:
    links = [each for each in CLASSES if issubclass(each, BaseOperatorLink)]
    assert INFO["extra-links"] == [f"{each.__module__}.{each.__name__}" for each in links]
    assert not [each for each in CLASSES if issubclass(each, BaseNotifier)]


def test_the_connection_s_hook_is_the_one_of_its_type() -> None:
    (connection,) = INFO["connection-types"]
    assert connection["hook-class-name"] == f"{HBaseSourceHook.__module__}.{HBaseSourceHook.__name__}"
    assert (connection["connection-type"], connection["hook-name"]) == (HBaseSourceHook.conn_type, HBaseSourceHook.hook_name)


def test_airflow_s_configuration_gets_our_options() -> None:
    assert INFO["config"]["walferry"]["options"] == descriptions()


def test_the_tables_of_the_page_are_those_of_the_code() -> None:
    page = PAGE.read_text()
    assert documented(page) == page


@pytest.mark.parametrize("cls", [each for kind in KINDS for each in of_kind(kind)], ids=lambda each: str(each.__name__))
def test_a_class_s_documentation_describes_each_parameter_that_we_add(cls: type) -> None:
    ours = [each for each in cls.__mro__ if each.__module__.startswith("walferry.")]
    assert parameters_of(cls).keys() == taken_by(ours)
