"""Finds the active NameNode of a highly available HDFS.

hdfs-native looks for the active NameNode by itself, in the order of the Hadoop configuration, and tries again for about a minute
while there is none. But it waits without a limit for a NameNode whose machine is silent, so a client's settings list the active
one first. And hdfs-native reports only the last NameNode's answer, so this module reports all answers.
"""

from __future__ import annotations

from collections.abc import Mapping

from walferry.base.hosts import side_by_side
from walferry.base.texts import one_line
from walferry.hbase.files.hdfs import ask
from walferry.hbase.files.namenode import CALL_SECONDS, MAX_TEXT_CHARS, NO_ANSWER, NameNode, NameNodeRefused
from walferry.hbase.files.namenodes import Server, address, name_services

ACTIVE, STANDBY = "active", "standby"


def preferred(url: str) -> dict[str, str]:
    """Return settings for a client of a URL that list the active NameNode of each name service first.

    Unlike Hadoop, hdfs-native ignores configured values with blanks around them, so these settings repeat all without blanks.
    """
    settings = {}
    for service, servers in name_services(url).items():
        first = _active_of(_states(url, servers)) if len(servers) > 1 else None
        settings[f"dfs.ha.namenodes.{service}"] = ",".join(sorted(servers, key=lambda each: each != first))
        settings |= {f"dfs.namenode.rpc-address.{service}.{name}": address(host, port) for name, (host, port) in servers.items()}
    return settings


def no_active(url: str) -> str | None:
    """Return a text with a URL's first name service without an active NameNode, and its NameNodes' states; None without one."""
    for service, servers in name_services(url).items():
        states = _states(url, servers)
        if _active_of(states) is None:
            reported = "; ".join(f"{name} ({host}:{port}) {states[name]}" for name, (host, port) in servers.items())
            return f"no NameNode of the name service {service} is active: {reported}"
    return None


def _active_of(states: Mapping[str, str]) -> str | None:
    return next((name for name, state in states.items() if state == ACTIVE), None)


def _states(url: str, servers: Mapping[str, Server]) -> dict[str, str]:
    """Return each NameNode's state by its id. Ask all at the same time, and stop waiting once an active one is found."""
    said = side_by_side(lambda name: _state(url, servers[name]), servers, CALL_SECONDS, lambda state: state == ACTIVE)
    return dict.fromkeys(servers, "does not answer") | said


def _state(url: str, server: Server) -> str:
    try:
        ask(*server, url, NameNode.space)
    except NameNodeRefused as error:
        return STANDBY if "StandbyException" in str(error) else f"refuses: {one_line(str(error), MAX_TEXT_CHARS)}"
    except NO_ANSWER as error:
        return f"cannot be asked: {one_line(str(error), MAX_TEXT_CHARS) or 'no answer'}"
    return ACTIVE
