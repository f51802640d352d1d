"""What is wrong with objects for Kubernetes: `helm template … | python -m tests.unit.containers.kubernetes_objects`.

kubernetes_schema.json holds the schemas of the kinds that are needed here, as PyPI's package kubernetes-validate publishes them
(made from Kubernetes' OpenAPI; Apache License 2.0), without their descriptions. No field passes that Kubernetes does not know.
To make the file anew, install that package in an environment of its own, and give this module the folder of its schemas:
…/kubernetes_validate/kubernetes-json-schema/v1.37.0-local-strict
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft7Validator

FILE = Path(__file__).with_name("kubernetes_schema.json")
KINDS = {
    **dict.fromkeys(
        ("v1 ConfigMap", "v1 PersistentVolumeClaim", "v1 Pod", "v1 Secret", "v1 Service", "v1 ServiceAccount"), "core"
    ),
    **dict.fromkeys(("apps/v1 Deployment", "apps/v1 StatefulSet"), "apps"),
    "batch/v1 Job": "batch",
    "networking.k8s.io/v1 NetworkPolicy": "networking",
    **dict.fromkeys(("rbac.authorization.k8s.io/v1 Role", "rbac.authorization.k8s.io/v1 RoleBinding"), "rbac"),
}


def problems(objects: Iterable[Any]) -> list[str]:
    """Return what Kubernetes would refuse, and what is careless in pods, a text each; empty if nothing is wrong."""
    objects = list(objects)
    return refused(objects) or [text for each in objects for text in careless(each)]


def refused(objects: Iterable[Any]) -> list[str]:
    """Return what does not have the form that Kubernetes' schemas ask for."""
    schema = json.loads(FILE.read_text("utf-8"))
    found = []
    for each in objects:
        kind = f"{each.get('apiVersion')} {each.get('kind')}"
        name = f"{kind} {each.get('metadata', {}).get('name')}"
        if kind not in KINDS:
            found.append(f"{name}: there is no schema of this kind here")
            continue
        validator = Draft7Validator({"$ref": f"#/$defs/{_name(kind)}", "$defs": schema["$defs"]})
        found += [f"{name}: {error.json_path}: {error.message}" for error in validator.iter_errors(each)]
    return found


def careless(each: Any) -> Iterator[str]:
    """Yield what no pod may have: root, a container with rights or without a limit of memory, a mount without a volume."""
    name, spec = f"{each['kind']} {each['metadata']['name']}", each.get("spec", {})
    pod = spec if each["kind"] == "Pod" else spec.get("template", {}).get("spec")
    if pod is None:
        return
    if not pod.get("securityContext", {}).get("runAsNonRoot"):
        yield f"{name}: it may run as root"
    volumes = {volume["name"] for volume in pod.get("volumes", [])}
    volumes |= {claim["metadata"]["name"] for claim in spec.get("volumeClaimTemplates", [])}
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        where, rights = f"{name}: container {container['name']}", container.get("securityContext", {})
        if rights.get("allowPrivilegeEscalation") is not False or rights.get("capabilities", {}).get("drop") != ["ALL"]:
            yield f"{where} has rights that it does not need"
        if "memory" not in container.get("resources", {}).get("limits", {}):
            yield f"{where} has no limit of memory"
        if missing := {mount["name"] for mount in container.get("volumeMounts", [])} - volumes:
            yield f"{where} mounts what is no volume of its pod: {', '.join(sorted(missing))}"


def _name(kind: str) -> str:
    version, _, name = kind.partition(" ")
    return f"io.k8s.api.{KINDS[kind]}.{version.rpartition('/')[2]}.{name}"


def made_of(folder: Path) -> dict[str, Any]:
    """Return the schemas of our kinds, and of all that they refer to, out of a folder of kubernetes-validate."""
    every: dict[str, Any] = json.loads((folder / "_definitions.json").read_text("utf-8"))["$defs"]
    needed: dict[str, Any] = {}
    names = list(map(_name, KINDS))
    while names:
        if (name := names.pop()) not in needed:
            needed[name] = _lean(every[name])
            names += _references(needed[name])
    about = f"Kubernetes {folder.name}, out of kubernetes-validate; Apache License 2.0"
    return {"$comment": about, "$defs": dict(sorted(needed.items()))}


def _lean(schema: Any, of_names: bool = False) -> Any:
    """Return a schema without descriptions and Kubernetes' own notes. A field may be called description, too."""
    if isinstance(schema, dict):
        kept = {name: each for name, each in schema.items() if of_names or not (name == "description" or name.startswith("x-"))}
        return {
            name: f"#/$defs/{each.rpartition('/')[2]}" if name == "$ref" and not of_names else _lean(each, name == "properties")
            for name, each in kept.items()
        }
    return [_lean(each) for each in schema] if isinstance(schema, list) else schema


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(to := schema.get("$ref"), str):
            yield to.rpartition("/")[2]
        for each in schema.values():
            yield from _references(each)
    elif isinstance(schema, list):
        for each in schema:
            yield from _references(each)


if __name__ == "__main__":
    if sys.argv[1:]:
        FILE.write_text(json.dumps(made_of(Path(sys.argv[1])), indent=1) + "\n", "utf-8")
    else:
        rendered = [each for each in yaml.safe_load_all(sys.stdin) if each]
        wrong = problems(rendered)
        print(*wrong, f"{len(rendered)} objects, {len(wrong)} problems", sep="\n")
        sys.exit(bool(wrong) or not rendered)
