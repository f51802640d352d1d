r"""Writes measures in Prometheus' text format, version 0.0.4, as node_exporter's textfile collector reads it.

    file    = family*
    family  = "# HELP " name " " help "\n" "# TYPE " name " gauge\n" sample+
    sample  = name "{" label ("," label)* "} " value "\n"
    label   = labelname "=" '"' text '"'
    name    = [a-zA-Z_:][a-zA-Z0-9_:]*          labelname = [a-zA-Z_][a-zA-Z0-9_]*
    help    = text in which "\" is written "\\" and a line break "\n"
    text    = the same, and a quotation mark is written '\"'
    value   = a decimal number

All is UTF-8. A family stands once, with all its samples, and no two samples have the same labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from walferry.observe.status.measures import MEASURES, UNKNOWN, Measure, Value, unknown


def exposition(values_by_source: Mapping[str, Sequence[Value]]) -> str:
    """The values of sources as text; for each one that is not known a sample of `walferry_unknown`, which names it."""
    lines: list[str] = []
    for measure in MEASURES.values():
        samples = list(_unknown(values_by_source) if measure is UNKNOWN else _samples(measure, values_by_source))
        if samples:
            help_text = measure.help.replace("\\", r"\\").replace("\n", r"\n")
            lines += [f"# HELP {measure.prometheus} {help_text}", f"# TYPE {measure.prometheus} gauge", *samples]
    return "".join(f"{line}\n" for line in lines)


def _samples(measure: Measure, values_by_source: Mapping[str, Sequence[Value]]) -> Iterator[str]:
    for source, values in values_by_source.items():
        for each in values:
            if each.measure is measure and each.value is not None:
                yield _sample(measure, _labels(source, each.peer_id), each.value / measure.per)


def _unknown(values_by_source: Mapping[str, Sequence[Value]]) -> Iterator[str]:
    for source, values in values_by_source.items():
        for peer_id, measures in unknown(values).items():
            for measure in measures:
                yield _sample(UNKNOWN, {**_labels(source, peer_id), "measure": measure.prometheus}, 1)


def _labels(source: str, peer_id: str | None) -> dict[str, str]:
    return {"source": source} if peer_id is None else {"source": source, "peer": peer_id}


def _sample(measure: Measure, labels: Mapping[str, str], value: float) -> str:
    told = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
    return f"{measure.prometheus}{{{told}}} {_number(value)}"


def _escaped(text: str) -> str:
    known = text.encode("utf-8", "replace").decode()  # a lone surrogate would make the whole file invalid
    return known.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))
