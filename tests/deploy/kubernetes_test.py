"""The manifests of deploy/kubernetes render, have only fields that Kubernetes knows, and fit together and to the server: its ports,
its settings, its metrics and the time that it takes to stop. Long because every component and example has its checks.

Needs kubectl or kustomize, and python3-yaml; without them it is skipped: exit status 77, and the reason.

usage: kubernetes_test.py --source FOLDER --build FOLDER [unittest's arguments]
"""

import argparse
import copy
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SKIPPED = 77
CLOSE_SECONDS = 5  # what a server takes to end behind its drain timeout

options = None  # of the command line


def source(path):
    return os.path.join(options.source, path)


def of_kind(documents, kind):
    return [document for document in documents if document["kind"] == kind]


def pod(documents):
    deployment, = of_kind(documents, "Deployment")
    return deployment["spec"]["template"]["spec"]


def server(documents):
    container, = pod(documents)["containers"]
    return container


def init_containers(documents):
    return {container["name"]: container for container in pod(documents).get("initContainers", [])}


def config(documents):
    """Text of the server.yaml that the pods mount."""
    name, = [volume["configMap"]["name"] for volume in pod(documents)["volumes"] if volume["name"] == "config"]
    found, = [one for one in of_kind(documents, "ConfigMap") if one["metadata"]["name"] == name]
    return found["data"]["server.yaml"]


def port_of(address):
    return int(address.rsplit(":", 1)[1])


class Rendered(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.all = manifests.everything(options.source)
        cls.fields = manifests.Fields(source("tests/deploy/kubernetes_fields.json"))

    def test_fields_are_those_of_kubernetes(self):
        for name, documents in self.all.items():
            with self.subTest(rendered=name):
                self.assertEqual([fault for document in documents for fault in self.fields.faults(document)], [])

    def test_the_check_of_fields_finds_what_is_wrong(self):
        deployment, = of_kind(self.all["overlays/cpu"], "Deployment")

        def faults(change):
            changed = copy.deepcopy(deployment)
            change(changed["spec"]["template"]["spec"])
            return self.fields.faults(changed)

        self.assertEqual(faults(lambda spec: None), [])
        self.assertIn("unknown field livenesProbe", faults(lambda spec: spec["containers"][0].update(livenesProbe={}))[0])
        self.assertIn("no integer", faults(lambda spec: spec.update(terminationGracePeriodSeconds="50"))[0])
        self.assertIn("has no name", faults(lambda spec: spec["containers"][0].pop("name"))[0])
        self.assertIn("no list", faults(lambda spec: spec.update(volumes={}))[0])
        self.assertEqual(self.fields.faults({"apiVersion": "v2", "kind": "Deployment"}), ["v2 Deployment is unknown"])

    def test_selectors_meet_the_pods(self):
        for name, documents in self.all.items():
            with self.subTest(rendered=name):
                deployment, = of_kind(documents, "Deployment")
                labels = deployment["spec"]["template"]["metadata"]["labels"].items()
                found = [deployment["spec"]["selector"]["matchLabels"]]
                found += [one["labelSelector"]["matchLabels"] for one in pod(documents)["topologySpreadConstraints"]]
                for document in documents:
                    spec = document.get("spec", {})
                    if document["kind"] == "Service":
                        found.append(spec["selector"])
                    elif document["kind"] in ("PodDisruptionBudget", "PodMonitor"):
                        found.append(spec["selector"]["matchLabels"])
                    elif document["kind"] == "NetworkPolicy":
                        found.append(spec["podSelector"]["matchLabels"])
                    elif document["kind"] in ("HorizontalPodAutoscaler", "ScaledObject"):
                        self.assertEqual(spec["scaleTargetRef"]["name"], deployment["metadata"]["name"])
                self.assertGreaterEqual(len(found), 5)
                for selector in found:
                    self.assertTrue(selector and selector.items() <= labels, selector)

    def test_ports_are_those_that_the_server_listens_on(self):
        for name, documents in self.all.items():
            with self.subTest(rendered=name):
                settings = yaml.safe_load(config(documents))
                ports = {port["name"]: port["containerPort"] for port in server(documents)["ports"]}
                grpc, plain_http = ("plain", "plain-http") if "tls" in init_containers(documents) else ("grpc", "http")
                self.assertEqual(ports, {grpc: port_of(settings["listen"]), "metrics": port_of(settings["metrics_listen"]),
                                         plain_http: port_of(settings["http_listen"])})
                for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                    self.assertEqual(server(documents)[probe]["grpc"]["port"], ports[grpc])
                for container in init_containers(documents).values():
                    ports |= {port["name"]: port["containerPort"] for port in container.get("ports", [])}
                used = [port["targetPort"] for one in of_kind(documents, "Service") for port in one["spec"]["ports"]]
                used += [one["port"] for monitor in of_kind(documents, "PodMonitor") for one in monitor["spec"]["podMetricsEndpoints"]]
                used += [port["port"] for policy in of_kind(documents, "NetworkPolicy") for rule in policy["spec"].get("ingress", [])
                         for port in rule["ports"]]
                self.assertLessEqual(set(used), set(ports))
                headless, = [one for one in of_kind(documents, "Service") if one["metadata"]["name"] == "beamline"]
                self.assertEqual(headless["spec"]["clusterIP"], "None")
                self.assertEqual([port["name"] for port in headless["spec"]["ports"]], ["grpc", "http"])
                policies = [rule for one in of_kind(documents, "NetworkPolicy") for rule in one["spec"].get("ingress", [])]
                for rule in policies:
                    named = {port["port"] for port in rule["ports"]}
                    self.assertEqual("grpc" in named, "http" in named, rule)

    def test_the_grace_period_covers_the_drain(self):
        for name, documents in self.all.items():
            with self.subTest(rendered=name):
                drain_s = yaml.safe_load(config(documents))["drain_timeout_ms"] / 1000
                pre_stop_s = server(documents)["lifecycle"]["preStop"]["sleep"]["seconds"]
                self.assertGreaterEqual(pod(documents)["terminationGracePeriodSeconds"], pre_stop_s + drain_s + CLOSE_SECONDS)

    def test_the_server_takes_arguments_and_configuration(self):
        for name, documents in self.all.items():
            with self.subTest(rendered=name):
                with tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="utf-8") as file:
                    file.write(config(documents))
                    file.flush()
                    arguments = [argument.replace("/etc/beamline/server.yaml", file.name).replace("$(CPU_COUNT)", "2")
                                 for argument in server(documents)["args"]]
                    done = subprocess.run([os.path.join(options.build, "server/beamline-server"), *arguments, "--print-config"],
                                          env=dict(os.environ, BEAMLINE_MODELS=source("models")), stdout=subprocess.PIPE,
                                          stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
                self.assertEqual(done.returncode, 0, done.stdout)
                printed = yaml.safe_load(done.stdout)
                self.assertEqual(printed["on_device_fault"], "exit")  # what the liveness probe relies on
                mounts = [mount["mountPath"] for mount in server(documents)["volumeMounts"]]
                for model in yaml.safe_load(config(documents)).get("models", []):
                    self.assertTrue(any(model["folder"].startswith(mount + "/") for mount in mounts), model)

    def test_volumes_are_there(self):
        for name, documents in self.all.items():
            with self.subTest(rendered=name):
                volumes = {volume["name"]: volume for volume in pod(documents)["volumes"]}
                maps = {one["metadata"]["name"] for one in of_kind(documents, "ConfigMap")}
                for container in pod(documents)["containers"] + pod(documents).get("initContainers", []):
                    self.assertLessEqual({mount["name"] for mount in container["volumeMounts"]}, set(volumes))
                for volume in volumes.values():
                    if "configMap" in volume:
                        self.assertIn(volume["configMap"]["name"], maps)

    def test_pods_are_restricted(self):
        for name, documents in self.all.items():
            with self.subTest(rendered=name):
                self.assertTrue(pod(documents)["securityContext"]["runAsNonRoot"])
                self.assertEqual(pod(documents)["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
                for container in pod(documents)["containers"] + pod(documents).get("initContainers", []):
                    self.assertEqual(container["securityContext"], {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                                                                    "capabilities": {"drop": ["ALL"]}})

    def test_tls_is_in_front_of_the_server(self):
        documents = self.all["components/tls"]
        proxy = init_containers(documents)["tls"]
        self.assertEqual(proxy["restartPolicy"], "Always")  # else the pod would wait for its end
        text, = [one["data"]["haproxy.cfg"] for one in of_kind(documents, "ConfigMap") if "haproxy.cfg" in one["data"]]
        self.assertIn(f"bind :{proxy['ports'][0]['containerPort']} ssl ", text)
        self.assertIn(f" 127.0.0.1:{port_of(yaml.safe_load(config(documents))['listen'])} proto h2", text)
        self.assertIn(f"bind :{proxy['ports'][1]['containerPort']} ssl ", text)
        self.assertIn(f" 127.0.0.1:{port_of(yaml.safe_load(config(documents))['http_listen'])}\n", text + "\n")
        mounts = [mount["mountPath"] + "/" for mount in proxy["volumeMounts"]]
        for path in [proxy["args"][-1], *re.findall(r" crt (\S+)", text)]:
            self.assertTrue(any(path.startswith(mount) for mount in mounts), path)
        service, = of_kind(documents, "Service")
        self.assertNotIn("appProtocol", service["spec"]["ports"][0])
        self.assertEqual(service["spec"]["ports"][1]["appProtocol"], "https")

    def test_the_route_leads_to_the_port_of_http(self):
        documents = self.all["components/http-route"]
        route, = of_kind(documents, "HTTPRoute")
        backend, = route["spec"]["rules"][0]["backendRefs"]
        service, = [one for one in of_kind(documents, "Service") if one["metadata"]["name"] == backend["name"]]
        self.assertNotIn("clusterIP", service["spec"])  # gateways balance themselves, and not all know a headless one
        port, = service["spec"]["ports"]
        self.assertEqual((port["port"], port["targetPort"]), (backend["port"], "http"))
        paths = [match["path"]["value"] for match in route["spec"]["rules"][0]["matches"]]
        self.assertEqual(paths, ["/v1", "/health"])

    def test_models_are_downloaded_to_a_claim_that_pods_share(self):
        documents = self.all["components/model-download"]
        container = init_containers(documents)["download"]
        token, = [one for one in container["env"] if one["name"] == "HF_TOKEN"]
        self.assertEqual(token["valueFrom"]["secretKeyRef"], {"name": "beamline-hub", "key": "token", "optional": True})
        claim, = of_kind(documents, "PersistentVolumeClaim")
        self.assertEqual(claim["spec"]["accessModes"], ["ReadWriteMany"])
        volumes = {volume["name"]: volume for volume in pod(documents)["volumes"]}
        self.assertEqual(volumes["models"]["persistentVolumeClaim"], {"claimName": claim["metadata"]["name"]})
        mounts = {one["name"]: one for one in container["volumeMounts"]}
        self.assertNotIn("readOnly", mounts["models"])
        home, = [one["value"] for one in container["env"] if one["name"] == "HF_HOME"]
        self.assertTrue(home.startswith(mounts["download-scratch"]["mountPath"] + "/"))
        self.assertEqual([one["readOnly"] for one in server(documents)["volumeMounts"] if one["name"] == "models"], [True])

    def test_components_with_init_containers_go_together(self):
        with tempfile.TemporaryDirectory() as scratch:
            shutil.copytree(source("deploy"), os.path.join(scratch, "deploy"))
            for names in (("tls", "model-download"), ("model-download", "tls")):
                documents = manifests.with_components(os.path.join(scratch, manifests.FOLDER), *names)
                self.assertEqual(sorted(init_containers(documents)), ["download", "tls"])

    def test_images_take_an_overlays_registry(self):
        for name, tag in (("cpu", "cpu"), ("gpu", "cuda")):
            self.assertEqual(server(self.all[f"components/{name}"])["image"], f"registry.example/beamline:{tag}")

    def test_what_scales_leaves_the_number_of_pods_alone(self):
        for name in ("autoscaling-hpa", "autoscaling-keda"):
            deployment, = of_kind(self.all[f"components/{name}"], "Deployment")
            self.assertNotIn("replicas", deployment["spec"])

    def test_metrics_and_rules_are_those_of_this_repository(self):
        metrics = documents_test.documented_metrics()
        hpa, = of_kind(self.all["components/autoscaling-hpa"], "HorizontalPodAutoscaler")
        self.assertIn(hpa["spec"]["metrics"][0]["pods"]["metric"]["name"], metrics)
        keda, = of_kind(self.all["components/autoscaling-keda"], "ScaledObject")
        for name, _ in promql.selectors(keda["spec"]["triggers"][0]["metadata"]["query"]):
            self.assertIn(name, metrics)
        rule, = of_kind(self.all["components/monitoring"], "PrometheusRule")
        self.assertEqual([one for group in rule["spec"]["groups"] for one in group["rules"]],
                         sorted(definitions.rules(options.source), key=lambda one: "alert" in one),
                         "run deploy/kubernetes/make_prometheus_rule.py")
        shown = {name: json.loads(text) for one in of_kind(self.all["components/monitoring"], "ConfigMap") for name, text in one["data"].items()
                 if name.endswith(".json")}
        self.assertEqual(shown, definitions.dashboards(options.source))


    def test_kube_prometheus_stack_selects_monitor_and_rules(self):
        def releases(documents):
            found = of_kind(documents, "PodMonitor") + of_kind(documents, "PrometheusRule")
            self.assertEqual(len(found), 2)
            return {one["metadata"]["labels"].get("release") for one in found}

        self.assertEqual(releases(self.all["components/monitoring"]), {"kube-prometheus-stack"})
        deployment, = of_kind(self.all["components/monitoring"], "Deployment")
        self.assertNotIn("release", deployment["metadata"]["labels"])
        # An overlay repeats the component's patch with the name of its own release.
        with open(source("deploy/kubernetes/components/monitoring/kustomization.yaml"), encoding="utf-8") as file:
            patch, = yaml.safe_load(file)["patches"]
        patch["patch"] = patch["patch"].replace("kube-prometheus-stack", "prometheus")
        with tempfile.TemporaryDirectory() as scratch:
            shutil.copytree(source("deploy"), os.path.join(scratch, "deploy"))
            self.assertEqual(releases(manifests.with_components(os.path.join(scratch, manifests.FOLDER), "monitoring", patches=[patch])),
                             {"prometheus"})

    def test_a_collector_of_spans_can_be_reached(self):
        for documents in (self.all["components/network-policy"], manifests.several_hosts(options.source)):
            policy, = of_kind(documents, "NetworkPolicy")
            self.assertIn("Egress", policy["spec"]["policyTypes"])
            reached = {port["port"] for rule in policy["spec"]["egress"] for port in rule.get("ports", [])}
            self.assertEqual(reached, {53, 4317})
            # Each port only of what it is for.
            for rule in policy["spec"]["egress"]:
                self.assertTrue(rule["to"], rule)


class KServe(unittest.TestCase):
    """The runtime and the example of deploy/kubernetes/kserve, which has pods made instead of a Deployment."""

    @classmethod
    def setUpClass(cls):
        cls.documents = manifests.kserve(options.source)
        cls.runtime, = of_kind(cls.documents, "ServingRuntime")
        cls.service, = of_kind(cls.documents, "InferenceService")
        cls.container, = cls.runtime["spec"]["containers"]

    def test_fields_are_those_of_kserve(self):
        fields = manifests.Fields(source("tests/deploy/kubernetes_fields.json"))
        self.assertEqual([fault for document in self.documents for fault in fields.faults(document)], [])
        self.assertIn("unknown field startup", fields.faults(
            {**self.runtime, "spec": {**self.runtime["spec"], "containers": [{**self.container, "startup": {}}]}})[0])

    def test_the_example_names_the_runtime(self):
        model = self.service["spec"]["predictor"]["model"]
        self.assertEqual(model["runtime"], self.runtime["metadata"]["name"])
        self.assertIn(model["modelFormat"]["name"], [one["name"] for one in self.runtime["spec"]["supportedModelFormats"]])
        self.assertEqual(self.container["image"], "beamline:cpu")

    def test_the_server_takes_its_arguments(self):
        arguments = [one.replace("{{.Name}}", "embed-en").replace("/mnt/models", source("models/embed-en")) for one in self.container["args"]]
        done = subprocess.run([os.path.join(options.build, "server/beamline-server"), *arguments, "--print-config"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        settings = yaml.safe_load(done.stdout)
        self.assertEqual([port["containerPort"] for port in self.container["ports"]], [port_of(settings["listen"])])
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            self.assertEqual(self.container[probe]["grpc"]["port"], port_of(settings["listen"]))
        self.assertEqual(int(self.runtime["spec"]["annotations"]["prometheus.kserve.io/port"]), port_of(settings["metrics_listen"]))
        pre_stop_s = self.container["lifecycle"]["preStop"]["sleep"]["seconds"]
        self.assertGreaterEqual(self.service["spec"]["predictor"]["terminationGracePeriodSeconds"],
                                pre_stop_s + settings["drain_timeout_ms"] / 1000 + CLOSE_SECONDS)


class SeveralHosts(unittest.TestCase):
    """deploy/kubernetes/several-hosts, whose pods are the ranks of one model."""

    @classmethod
    def setUpClass(cls):
        cls.documents = manifests.several_hosts(options.source)
        cls.set, = of_kind(cls.documents, "LeaderWorkerSet")
        cls.group = cls.set["spec"]["leaderWorkerTemplate"]
        cls.pods = [cls.group[name]["spec"] for name in ("leaderTemplate", "workerTemplate")]
        cls.containers = [spec["containers"][0] for spec in cls.pods]

    def test_fields_are_those_of_kubernetes(self):
        fields = manifests.Fields(source("tests/deploy/kubernetes_fields.json"))
        self.assertEqual([fault for document in self.documents for fault in fields.faults(document)], [])
        wrong = copy.deepcopy(self.set)
        wrong["spec"]["leaderWorkerTemplate"]["workerTemplates"] = {}
        self.assertIn("unknown field workerTemplates", fields.faults(wrong)[0])

    def settings(self, container, rank):
        values = {"$(LWS_LEADER_ADDRESS)": "beamline-0.beamline.beamline", "$(RANK)": str(rank), "/models/": source("models/"),
                  "/etc/beamline-ranks/secret": self.secret}
        arguments = container["args"]
        for name, value in values.items():
            arguments = [one.replace(name, value) for one in arguments]
        self.assertFalse([one for one in arguments if "$" in one])
        done = subprocess.run([os.path.join(options.build, "server/beamline-server"), *arguments, "--print-config"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        return yaml.safe_load(done.stdout)

    def test_the_server_takes_the_arguments_of_every_rank(self):
        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
            file.write("sixteen bytes and more")
            file.flush()
            self.secret = file.name
            front, follower = [self.settings(container, rank) for rank, container in enumerate(self.containers)]
        self.assertEqual((front["rank"], follower["rank"]), (0, 1))
        self.assertEqual({**follower, "rank": 0}, front)
        self.assertEqual(front["models"][0]["tensor_parallel"], self.group["size"])
        ports = {port["name"]: port["containerPort"] for port in self.containers[0]["ports"]}
        self.assertEqual(ports, {"grpc": port_of(front["listen"]), "metrics": port_of(front["metrics_listen"]), "http": port_of(front["http_listen"]),
                                 "ranks": port_of(front["rank_address"])})
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            self.assertEqual(self.containers[0][probe]["grpc"]["port"], ports["grpc"])
            self.assertNotIn(probe, self.containers[1])
        # The front is given up no sooner than it gives up itself.
        probe = self.containers[0]["startupProbe"]
        self.assertGreater(probe["periodSeconds"] * probe["failureThreshold"], front["rank_timeout_ms"] / 1000)
        pre_stop_s = self.containers[0]["lifecycle"]["preStop"]["sleep"]["seconds"]
        self.assertGreaterEqual(self.pods[0]["terminationGracePeriodSeconds"],
                                pre_stop_s + front["drain_timeout_ms"] / 1000 + CLOSE_SECONDS)

    def test_a_rank_is_the_index_of_its_pod(self):
        index = "leaderworkerset.sigs.k8s.io/worker-index"
        for container in self.containers:
            variable, = container["env"]
            self.assertEqual((variable["name"], variable["valueFrom"]["fieldRef"]["fieldPath"]), ("RANK", f"metadata.labels['{index}']"))
        service, = of_kind(self.documents, "Service")
        policy, = of_kind(self.documents, "NetworkPolicy")
        self.assertEqual(service["spec"]["selector"].pop(index), "0")
        for selector in (service["spec"]["selector"], policy["spec"]["podSelector"]["matchLabels"],
                         policy["spec"]["ingress"][0]["from"][0]["podSelector"]["matchLabels"]):
            for name in ("leaderTemplate", "workerTemplate"):
                self.assertLessEqual(selector.items(), self.group[name]["metadata"]["labels"].items())
        ports = {port["name"] for port in self.containers[0]["ports"]}
        among, others = policy["spec"]["ingress"]
        self.assertNotIn("ports", among)  # the system chooses some of those that ranks listen on
        self.assertEqual({port["port"] for port in others["ports"]} | {"ranks"}, ports)
        self.assertIn({"to": among["from"]}, policy["spec"]["egress"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True)
    parser.add_argument("--build", required=True)
    options, rest = parser.parse_known_args()
    try:
        import yaml
    except ImportError:
        print("skipped: this Python has no yaml; Debian's is python3-yaml")
        sys.exit(SKIPPED)
    import manifests
    if manifests.renderer() is None:
        print("skipped: there is neither kubectl nor kustomize")
        sys.exit(SKIPPED)
    sys.path.insert(0, source("tests/e2e"))
    import definitions
    import documents_test
    import promql
    documents_test.options = options
    unittest.main(argv=sys.argv[:1] + rest)
