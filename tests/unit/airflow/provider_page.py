"""The tables of docs/provider.md, made from the code: `PYTHONPATH=plugins:. python -m tests.unit.airflow.provider_page`."""

from __future__ import annotations

import importlib
import inspect
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tests.doc_tables import ROOT
from walferry.airflow.provider import get_provider_info

PAGE = ROOT / "docs/provider.md"
KINDS = {"operators": "Operator", "sensors": "Sensor", "triggers": "Trigger", "hooks": "Hook"}


def documented(page: str) -> str:
    """The page with its tables made anew."""
    tables = {
        "requirements": _table(("package", "version"), _requirements()),
        "fields": _table(("field", "in the extra", "meaning"), _fields()),
        "parameters": _table(("class", "parameter", "meaning"), _parameters()),
        **{kind: _table(("class", "module", "what it does"), map(_row, of_kind(kind))) for kind in KINDS},
    }
    for name, lines in tables.items():
        before, begin, rest = page.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition("<!-- end -->\n")
        assert all((begin, end)), name
        page = f"{before}{begin}\n{lines}\n{end}{after}"
    return page


def of_kind(kind: str) -> list[type]:
    """The classes of the modules that the provider's metadata names."""
    (entry,) = get_provider_info()[kind]
    modules = map(importlib.import_module, entry["python-modules"])
    return [
        each for module in modules for name, each in vars(module).items()
        if inspect.isclass(each) and each.__module__ == module.__name__ and name.endswith(KINDS[kind])
    ]  # fmt: skip


def parameters_of(cls: type) -> Mapping[str, str]:
    """The parameters of a class and of our bases of it, as their docstrings describe them."""
    found: dict[str, str] = {}
    for each in cls.__mro__:
        if each.__module__.startswith("walferry."):
            for name, text in re.findall(r"(?m)^ *:param (\w+): ((?:.|\n(?! *:| *$))+)", each.__doc__ or ""):
                found.setdefault(name, " ".join(text.split()))
    return found


def taken_by(classes: Iterable[type]) -> set[str]:
    """The parameters that these classes take by name, without those that they only pass on."""
    makers = [vars(each)["__init__"] for each in classes if "__init__" in vars(each)]
    every = [one for maker in makers for one in inspect.signature(maker).parameters.values()]
    return {one.name for one in every if one.kind is not one.VAR_KEYWORD and one.name != "self"}


def _row(cls: type) -> Sequence[str]:
    first = re.split(r"\.\s|\.$|: with", cls.__doc__ or "")[0]
    return f"`{cls.__name__}`", f"`{cls.__module__}`", f"{' '.join(first.split())}."


def _parameters() -> Iterator[Sequence[str]]:
    """Those of the classes that are for everyone's DAGs: sensors, and triggers for watchers of assets."""
    for cls in (*of_kind("sensors"), *(each for each in of_kind("triggers") if each.__name__.endswith("EventTrigger"))):
        for name, text in parameters_of(cls).items():
            yield f"`{cls.__name__}`", f"`{name}`", text


def _fields() -> Iterator[Sequence[str]]:
    (connection,) = get_provider_info()["connection-types"]
    for name, field in connection["conn-fields"].items():
        yield field["label"], f"`{name}`", field["description"]


def _requirements() -> Iterator[Sequence[str]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    yield "Python", f"`{project['requires-python']}`"
    for extra in ("airflow", "spark"):
        for needed in project["optional-dependencies"][extra]:
            name, version = re.fullmatch(r"([\w-]+)(.*)", needed).groups()  # type: ignore[union-attr]
            yield f"`{name}`", f"`{version}`"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, *rows)).replace("\n", f"\n{'|---' * len(head)}|\n", 1)


if __name__ == "__main__":
    PAGE.write_text(documented(PAGE.read_text()))
