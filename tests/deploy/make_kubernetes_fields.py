#!/usr/bin/env python3
"""Writes kubernetes_fields.json: of Kubernetes's schemas the objects that our manifests have, with all their fields, so that a
misspelt one is found without the schemas themselves. Run it when a manifest has an object of a new kind.

The schemas are those of the Python package kubernetes-validate, and of the oldest Kubernetes that the manifests are for. Objects of
operators (CUSTOM) are not among them; theirs are written here by hand, by the operators' references.

usage: make_kubernetes_fields.py FOLDER     FOLDER: .../kubernetes-json-schema/v1.30.0-local-strict
"""

import json
import os
import sys

import manifests

HERE = os.path.dirname(os.path.abspath(__file__))
PREFIXES = {"Quantity": "quantity", "IntOrString": "integer or string", "Time": "string", "MicroTime": "string", "FieldsV1": "any"}
META = {"name": "string", "namespace": "string", "labels": "{}string", "annotations": "{}string"}
CUSTOM = {
    "kinds": {"monitoring.coreos.com/v1 PodMonitor": "PodMonitor", "monitoring.coreos.com/v1 PrometheusRule": "PrometheusRule",
              "keda.sh/v1alpha1 ScaledObject": "ScaledObject", "serving.kserve.io/v1alpha1 ServingRuntime": "ServingRuntime",
              "serving.kserve.io/v1beta1 InferenceService": "InferenceService",
              "leaderworkerset.x-k8s.io/v1 LeaderWorkerSet": "LeaderWorkerSet",
              "gateway.networking.k8s.io/v1 HTTPRoute": "HTTPRoute"},
    "objects": {
        "CustomMeta": {"fields": META, "required": ["name"]},
        "PodMonitor": {"fields": {"apiVersion": "string", "kind": "string", "metadata": "CustomMeta", "spec": "PodMonitorSpec"},
                       "required": ["metadata", "spec"]},
        "PodMonitorSpec": {"fields": {"selector": "CustomSelector", "podMetricsEndpoints": "[]PodMetricsEndpoint", "jobLabel": "string"},
                           "required": ["selector", "podMetricsEndpoints"]},
        "CustomSelector": {"fields": {"matchLabels": "{}string"}},
        "PodMetricsEndpoint": {"fields": {"port": "string", "path": "string", "interval": "string", "scrapeTimeout": "string"}},
        "PrometheusRule": {"fields": {"apiVersion": "string", "kind": "string", "metadata": "CustomMeta", "spec": "PrometheusRuleSpec"},
                           "required": ["metadata", "spec"]},
        "PrometheusRuleSpec": {"fields": {"groups": "[]RuleGroup"}},
        "RuleGroup": {"fields": {"name": "string", "interval": "string", "rules": "[]Rule"}, "required": ["name"]},
        "Rule": {"fields": {"record": "string", "alert": "string", "expr": "integer or string", "for": "string", "labels": "{}string",
                            "annotations": "{}string"}, "required": ["expr"]},
        "ScaledObject": {"fields": {"apiVersion": "string", "kind": "string", "metadata": "CustomMeta", "spec": "ScaledObjectSpec"},
                         "required": ["metadata", "spec"]},
        "ScaledObjectSpec": {"fields": {"scaleTargetRef": "ScaleTarget", "pollingInterval": "integer", "cooldownPeriod": "integer",
                                        "minReplicaCount": "integer", "maxReplicaCount": "integer", "fallback": "Fallback",
                                        "triggers": "[]Trigger"}, "required": ["scaleTargetRef", "triggers"]},
        "ScaleTarget": {"fields": {"name": "string", "kind": "string", "apiVersion": "string"}, "required": ["name"]},
        "Fallback": {"fields": {"failureThreshold": "integer", "replicas": "integer"}, "required": ["failureThreshold", "replicas"]},
        "ServingRuntime": {"fields": {"apiVersion": "string", "kind": "string", "metadata": "CustomMeta", "spec": "ServingRuntimeSpec"},
                           "required": ["metadata", "spec"]},
        "ServingRuntimeSpec": {"fields": {"annotations": "{}string", "labels": "{}string", "supportedModelFormats": "[]ModelFormat",
                                          "protocolVersions": "[]string", "multiModel": "boolean", "containers": "[]core.v1.Container",
                                          "disabled": "boolean"}, "required": ["containers"]},
        "ModelFormat": {"fields": {"name": "string", "version": "string", "autoSelect": "boolean", "priority": "integer"},
                        "required": ["name"]},
        "InferenceService": {"fields": {"apiVersion": "string", "kind": "string", "metadata": "CustomMeta", "spec": "InferenceServiceSpec"},
                             "required": ["metadata", "spec"]},
        "InferenceServiceSpec": {"fields": {"predictor": "Predictor"}, "required": ["predictor"]},
        "Predictor": {"fields": {"minReplicas": "integer", "maxReplicas": "integer", "terminationGracePeriodSeconds": "integer",
                                 "model": "PredictorModel"}, "required": ["model"]},
        "PredictorModel": {"fields": {"modelFormat": "ModelFormat", "runtime": "string", "storageUri": "string", "args": "[]string",
                                      "resources": "core.v1.ResourceRequirements"}, "required": ["modelFormat"]},
        "LeaderWorkerSet": {"fields": {"apiVersion": "string", "kind": "string", "metadata": "CustomMeta", "spec": "LeaderWorkerSetSpec"},
                            "required": ["metadata", "spec"]},
        "LeaderWorkerSetSpec": {"fields": {"replicas": "integer", "leaderWorkerTemplate": "LeaderWorkerTemplate", "startupPolicy": "string",
                                           "rolloutStrategy": "any", "networkConfig": "any"}, "required": ["leaderWorkerTemplate"]},
        "LeaderWorkerTemplate": {"fields": {"size": "integer", "restartPolicy": "string", "leaderTemplate": "core.v1.PodTemplateSpec",
                                            "workerTemplate": "core.v1.PodTemplateSpec", "subGroupPolicy": "any"},
                                 "required": ["workerTemplate"]},
        "HTTPRoute": {"fields": {"apiVersion": "string", "kind": "string", "metadata": "CustomMeta", "spec": "HTTPRouteSpec"},
                      "required": ["metadata", "spec"]},
        "HTTPRouteSpec": {"fields": {"parentRefs": "[]ParentReference", "hostnames": "[]string", "rules": "[]HTTPRouteRule"}},
        "ParentReference": {"fields": {"group": "string", "kind": "string", "namespace": "string", "name": "string",
                                       "sectionName": "string", "port": "integer"}, "required": ["name"]},
        "HTTPRouteRule": {"fields": {"name": "string", "matches": "[]HTTPRouteMatch", "filters": "any", "backendRefs": "[]HTTPBackendRef",
                                     "timeouts": "HTTPRouteTimeouts"}},
        "HTTPRouteMatch": {"fields": {"path": "HTTPPathMatch", "headers": "any", "queryParams": "any", "method": "string"}},
        "HTTPPathMatch": {"fields": {"type": "string", "value": "string"}},
        "HTTPRouteTimeouts": {"fields": {"request": "string", "backendRequest": "string"}},
        "HTTPBackendRef": {"fields": {"group": "string", "kind": "string", "name": "string", "namespace": "string", "port": "integer",
                                      "weight": "integer", "filters": "any"}, "required": ["name"]},
        "Trigger": {"fields": {"type": "string", "metricType": "string", "name": "string", "metadata": "{}string"}, "required": ["type", "metadata"]},
    },
}


class Extract:
    def __init__(self, definitions):
        self.definitions = definitions
        self.objects = {}

    def type_of(self, schema):
        """How manifests.Fields calls a schema; an object that is not in self.objects is "any"."""
        if "$ref" in schema:
            name = schema["$ref"].rsplit("/", 1)[-1]
            short = name.rsplit(".", 1)[-1]
            return PREFIXES.get(short) or name
        kind = schema.get("type", "any")
        kind = next((one for one in kind if one != "null"), "any") if isinstance(kind, list) else kind
        if kind == "array":
            return "[]" + self.type_of(schema["items"])
        if kind == "object":
            more = schema.get("additionalProperties")
            return "{}" + self.type_of(more) if isinstance(more, dict) else "any"
        return kind

    def visit(self, of, value):
        """Takes in every object that `value` has."""
        if of.startswith("[]"):
            for item in value:
                self.visit(of[2:], item)
        elif of.startswith("{}"):
            for item in value.values():
                self.visit(of[2:], item)
        elif of in self.definitions and "properties" in self.definitions[of]:
            schema = self.definitions[of]
            fields = {name: self.type_of(field) for name, field in schema["properties"].items()}
            self.objects[of] = {"fields": fields, "required": sorted(schema.get("required", []))}
            for name, item in value.items():
                self.visit(fields[name], item)

    def result(self):
        """With short names, and nothing of objects that were not visited."""
        names = {name: name.split(".api.")[-1].removeprefix("io.k8s.apimachinery.pkg.apis.") for name in self.objects}

        def short(of):
            for prefix in ("[]", "{}"):
                if of.startswith(prefix):
                    return prefix + short(of[2:])
            return names.get(of, of if of in manifests.SCALARS else "any")

        return {names[name]: {"fields": {field: short(of) for field, of in known["fields"].items()},
                              **({"required": known["required"]} if known["required"] else {})}
                for name, known in self.objects.items()}, names


def main():
    with open(os.path.join(sys.argv[1], "_definitions.json"), encoding="utf-8") as file:
        loaded = json.load(file)
    extract = Extract(loaded.get("$defs") or loaded["definitions"])
    roots = {}
    for documents in manifests.everything(os.path.join(HERE, "../..")).values():
        for document in documents:
            kind = f"{document['apiVersion']} {document['kind']}"
            if kind in CUSTOM["kinds"]:
                continue
            group, _, version = document["apiVersion"].rpartition("/")
            package = f"io.k8s.api.{group.split('.')[0] or 'core'}.{version}.{document['kind']}"
            roots[kind] = package
            extract.visit(package, document)
    objects, names = extract.result()
    kinds = {kind: names[package] for kind, package in sorted(roots.items())}
    with open(os.path.join(HERE, "kubernetes_fields.json"), "w", encoding="utf-8") as file:
        lines = [f'  {json.dumps(name)}: {json.dumps(known)}' for name, known in sorted((objects | CUSTOM["objects"]).items())]
        file.write('{\n "kinds": ' + json.dumps(kinds | CUSTOM["kinds"]) + ',\n "objects": {\n' + ",\n".join(lines) + "\n }\n}\n")


if __name__ == "__main__":
    main()
