"""The source clusters that Airflow's configuration names, and the names of what Airflow has for each of them.

Section [walferry], option `sources`, or AIRFLOW__WALFERRY__SOURCES: ids of connections, separated by commas. Each source has
DAGs, an asset and Variables of its own, so that no source waits for another one, or reads what another one has left.

The names depend on nothing but the connection's id. So the others' DAGs, with their runs and pauses, stay what they are when a
source is added or removed, wherever it stands in the list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from walferry.airflow.options import option
from walferry.base.errors import WalferryError
from walferry.base.texts import one_line
from walferry.replication.source.cluster import DEFAULT_CONN_ID
from walferry.replication.source.fields import is_conn_id

MAX_CHARS = 100  # Airflow's limit for a DAG's tag
MAX_SHOWN_CHARS = 120
SEPARATOR = "-"  # in no name of a DAG file; tools that read names of metrics and secrets take dots for something else


class WrongSources(WalferryError):
    """The configuration names sources that cannot have DAGs."""

    retry_helps = False


@dataclass(frozen=True)
class ConfiguredSources:
    """The sources that are served, and what is wrong with the others, a text each."""

    names: Sequence[str]
    problems: Sequence[str] = ()

    def check(self) -> None:
        """Raise WrongSources if something is wrong."""
        if self.problems:
            served = f"The DAGs of {', '.join(self.names)} go on" if self.names else "Until then there are no DAGs"
            raise WrongSources(
                f"option sources in section [walferry] of Airflow's configuration: {'; '.join(self.problems)}",
                f"Correct it: ids of connections, separated by commas, each once. {served}",
            )


def configured() -> ConfiguredSources:
    """Return the sources of Airflow's configuration. Asks neither the database nor a secrets backend."""
    return sources_of(option("sources"))


def sources_of(text: str) -> ConfiguredSources:
    """Return the sources that the text of the option names."""
    names: list[str] = []
    problems = []
    for name in map(str.strip, text.split(",")):
        if wrong := _problem(name, names):
            problems.append(wrong)
        else:
            names.append(name)
    return ConfiguredSources(tuple(names), tuple(dict.fromkeys(problems)))


def own_name(name: str, conn_id: str) -> str:
    """Return the name of a source's DAG, asset or Variable: for `hbase_source` the name itself, for others name-source."""
    return name if conn_id == DEFAULT_CONN_ID else f"{name}{SEPARATOR}{conn_id}"


def of_source(text: str, conn_id: str) -> str:
    """Return what an option says for a source: `for all; west=for west` has parts that hold for one source only.

    Other parts are passed over: `check_parts` tells of them where that ends no DAG.
    """
    common, own = _parts(text)
    return {name: value for name, value in own if value}.get(conn_id, common)


def check_parts(name: str, sources: Sequence[str]) -> None:
    """Raise WrongSources if an option has a part that holds for no source."""
    wrong = [
        f"{one_line(repr(source), MAX_SHOWN_CHARS)} is no source" if value else
        f"{one_line(repr(source), MAX_SHOWN_CHARS)} does not say for which source it is"
        for source, value in _parts(option(name))[1]
        if not value or source not in sources
    ]  # fmt: skip
    if wrong:
        raise WrongSources(
            f"option {name} in section [walferry] of Airflow's configuration: {'; '.join(wrong)}",
            "Correct it: a value for all sources, then `; source=value` for some. Until then these parts have no effect",
        )


def names_in(text: str) -> set[str]:
    """Return the sources that an option lists, separated by commas. Unlike `sources_of`, it takes no name for wrong."""
    return {name for name in map(str.strip, text.split(",")) if name}


def check_names(name: str, sources: Sequence[str]) -> None:
    """Raise WrongSources if an option lists something else than `sources`."""
    if unknown := sorted(names_in(option(name)).difference(sources)):
        raise WrongSources(
            f"option {name} in section [walferry] of Airflow's configuration: "
            f"{', '.join(one_line(repr(each), MAX_SHOWN_CHARS) for each in unknown)} is not among the option sources",
            "Correct it: ids of connections, separated by commas, which the option sources has, too",
        )


def _parts(text: str) -> tuple[str, list[tuple[str, str]]]:
    """Return the part for all sources, and the others as pairs of source and value; without `=`, the value is empty."""
    common, *own = (part.strip() for part in text.split(";"))
    pairs = (part.partition("=") for part in own if part)
    return common, [(source.strip(), value.strip()) for source, _, value in pairs]


def common_name(dag_id: str) -> str:
    """Return the name that a DAG of ours shares with the same DAG of other sources: the inverse of `own_name`."""
    return dag_id.partition(SEPARATOR)[0]


def _problem(name: str, before: Sequence[str]) -> str | None:
    shown = one_line(repr(name), MAX_SHOWN_CHARS)
    if not name:
        return "it has an empty name, or none at all"
    if name in before:
        return f"it has {shown} twice"
    if not is_conn_id(name):
        return f"{shown} is not the id of a connection: an id has letters, digits, hyphens, underscores and dots only"
    if len(name) > MAX_CHARS:
        return f"{shown} has {len(name)} characters, and an id may have {MAX_CHARS}"
    return None
