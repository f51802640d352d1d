"""Tasks whose arguments are values and never templates.

Airflow hands the text in an operator's template fields to Jinja, which can read all connections and variables. Some of that text
comes from outside: names in ZooKeeper, and texts from a form, an event or a peer cluster. Airflow does not render values that
`expand` maps, but it renders values that `expand_kwargs` maps, however deep they lie in lists and dicts. The classes here render
no text, wherever it comes from.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar, overload

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import Context
from airflow.sdk.bases.decorator import DecoratedOperator, Task, task_decorator_factory

from walferry.airflow.endings import ends_plainly

P = ParamSpec("P")
R = TypeVar("R")

MAX_LABEL_CHARS = 250  # limit of a mapped task's label in Airflow's database


def label(expression: str) -> str:
    """Return the `map_index_template` that shows an attribute of the mapped task. The attribute's value is never rendered."""
    return f"{{{{ {expression}[:{MAX_LABEL_CHARS}] }}}}"


class LiteralFields:
    """A mixin for operators, named before the operator's class: it replaces XComs and mapped arguments, and renders nothing."""

    template_ext: Sequence[str] = ()  # a value is not read as a file, even if it ends like a file name

    def render_template(self, content: Any, context: Context, *_: Any, **__: Any) -> Any:
        """Resolve a field. Airflow calls this for each field."""
        return resolved(content, context)


class LiteralIfMapped(LiteralFields):
    """The same for mapped tasks, whose values may come from anywhere. Others' are in the DAG file: templates work there."""

    def render_template(self, content: Any, context: Context, *args: Any, **kwargs: Any) -> Any:
        """Resolve a field. Airflow calls this for each field."""
        if context["ti"].map_index not in (None, -1):
            return resolved(content, context)
        return super(LiteralFields, self).render_template(content, context, *args, **kwargs)  # type: ignore[misc]


class LiteralTask(LiteralFields, DecoratedOperator, PythonOperator):
    """A task made of a function. The function's arguments are data."""

    custom_operator_name = "@task"
    template_fields: Sequence[str] = PythonOperator.template_fields
    template_fields_renderers = PythonOperator.template_fields_renderers

    def __init__(
        self, *, python_callable: Callable[..., Any], op_args: Collection[Any], op_kwargs: Mapping[str, Any], **kwargs: Any
    ) -> None:
        upstream: dict[str, Any] = {"python_callable": python_callable, "op_args": op_args, "op_kwargs": op_kwargs}
        super().__init__(kwargs_to_upstream=upstream, **upstream, **kwargs)

    @ends_plainly
    def execute(self, context: Context) -> Any:
        """Call the function."""
        return super().execute(context)


@overload
def task(python_callable: Callable[P, R]) -> Task[P, R]: ...


@overload
def task(**kwargs: Any) -> Callable[[Callable[P, R]], Task[P, R]]: ...


def task(python_callable: Callable[..., Any] | None = None, **kwargs: Any) -> Any:
    """Make a task of a function, as Airflow's own decorator does, but render none of its arguments."""
    return task_decorator_factory(python_callable=python_callable, decorated_operator_class=LiteralTask, **kwargs)


def resolved(value: Any, context: Context) -> Any:
    """Replace XComs and mapped arguments by their values, also in lists, tuples, sets and dicts."""
    if isinstance(value, (str, bytes, os.PathLike)):
        return value
    if callable(resolve := getattr(value, "resolve", None)):
        return resolve(context)
    if type(value) is dict:
        return {key: resolved(item, context) for key, item in value.items()}
    if type(value) in (list, tuple, set):
        return type(value)(resolved(item, context) for item in value)
    return value
