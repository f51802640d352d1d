"""Commands of `walferry` that a text names: whether they are there."""

from __future__ import annotations

import shlex

import click

from walferry.cli.main import walferry


def wrong_with(words: str) -> str | None:
    """Return why there is no such command, from the words behind `walferry`; None if it is there with its options."""
    command: click.Command = walferry
    left = shlex.split(words.replace("…", ""))
    while isinstance(command, click.Group) and left and (inner := command.get_command(click.Context(command), left[0])):
        command, left = inner, left[1:]
    if isinstance(command, click.Group) and not command.invoke_without_command and left and not left[0].startswith("--"):
        return f"there is no command {words!r}"
    options = {option for param in command.params for option in (*param.opts, *param.secondary_opts)}
    unknown = {word.partition("=")[0] for word in left if word.startswith("--")} - {*options, "--help"}
    return f"{words!r} has no {', '.join(sorted(unknown))}" if unknown else None
