"""The manifests of deploy/kubernetes, rendered, and a check of them against what Kubernetes knows."""

import json
import os
import shutil
import subprocess
import tempfile

import yaml

FOLDER = "deploy/kubernetes"


def renderer():
    """A command that renders the folder behind it; None where there is none."""
    if shutil.which("kubectl"):
        return ["kubectl", "kustomize"]
    if shutil.which("kustomize"):
        return ["kustomize", "build"]
    return None


def render(folder):
    done = subprocess.run([*renderer(), folder], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=60, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{folder}: {done.stderr}")
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def with_components(root, *names, **more):
    """The base with components, as an overlay of one's own has them, which has `more` too. `root`: a copy of deploy/kubernetes."""
    with tempfile.TemporaryDirectory(prefix="overlay", dir=root) as folder:  # kustomize reads relative paths alone
        with open(os.path.join(folder, "kustomization.yaml"), "w", encoding="utf-8") as file:
            yaml.safe_dump({"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "namespace": "prod",
                            "resources": ["../base"], "components": [f"../components/{name}" for name in names],
                            "images": [{"name": "beamline", "newName": "registry.example/beamline"}], **more}, file)
        return render(folder)


def everything(source):
    """Documents by the name of what they were rendered from: the overlays, and the base with each component."""
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copytree(os.path.join(source, "deploy"), os.path.join(scratch, "deploy"))
        root = os.path.join(scratch, FOLDER)
        names = {kind: sorted(os.listdir(os.path.join(root, kind))) for kind in ("overlays", "components")}
        found = {f"overlays/{name}": render(os.path.join(root, "overlays", name)) for name in names["overlays"]}
        found["base"] = render(os.path.join(root, "base"))
        found |= {f"components/{name}": with_components(root, name) for name in names["components"]}
    return found


def kserve(source):
    """What deploy/kubernetes/kserve renders to: no Deployment, which KServe makes."""
    return render(os.path.join(source, FOLDER, "kserve"))


def several_hosts(source):
    """What deploy/kubernetes/several-hosts renders to: no Deployment, but a LeaderWorkerSet."""
    return render(os.path.join(source, FOLDER, "several-hosts"))


class Fields:
    """kubernetes_fields.json: the fields of Kubernetes's objects as far as our manifests have them (make_kubernetes_fields.py)."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.known = json.load(file)

    def faults(self, document):
        kind = f"{document['apiVersion']} {document['kind']}"
        if kind not in self.known["kinds"]:
            return [f"{kind} is unknown"]
        return list(self._check(self.known["kinds"][kind], document, kind))

    def _check(self, of, value, place):
        if of.startswith("[]"):
            if not isinstance(value, list):
                yield f"{place} is no list"
                return
            for index, item in enumerate(value):
                yield from self._check(of[2:], item, f"{place}[{index}]")
        elif of.startswith("{}"):
            if not isinstance(value, dict):
                yield f"{place} is no mapping"
                return
            for key, item in value.items():
                yield from self._check(of[2:], item, f"{place}.{key}")
        elif of in SCALARS:
            if not SCALARS[of](value):
                yield f"{place} is {value!r}, no {of}"
        else:
            yield from self._check_object(self.known["objects"][of], value, place)

    def _check_object(self, known, value, place):
        if not isinstance(value, dict):
            yield f"{place} is no mapping"
            return
        for name in known.get("required", []):
            if name not in value:
                yield f"{place} has no {name}"
        for name, item in value.items():
            if name not in known["fields"]:
                yield f"{place} has an unknown field {name}"
            else:
                yield from self._check(known["fields"][name], item, f"{place}.{name}")


def is_integer(value):
    return isinstance(value, int) and not isinstance(value, bool)


SCALARS = {
    "any": lambda value: True,
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": is_integer,
    "number": lambda value: is_integer(value) or isinstance(value, float),
    "integer or string": lambda value: is_integer(value) or isinstance(value, str),
    "quantity": lambda value: is_integer(value) or isinstance(value, (str, float)),
}
