"""The package as a whole: it covers the contract, both clients are alike, errors carry what the server's texts say."""

import importlib.util
import inspect
import os
import pickle
import re
import subprocess
import sys
import unittest
import unittest.mock

import grpc

import beamline_client
from beamline_client import _methods, errors, results
from beamline_client._protos import status_pb2
from beamline_client.v1 import inference_pb2, models_pb2

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
FOLDER = os.path.dirname(beamline_client.__file__)


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


class Contract(unittest.TestCase):
    def test_every_rpc_can_be_called(self):
        kinds = {"stream_stream": "stream stream", "unary_stream": "unary stream", "unary_unary": "unary unary"}
        known = {one.path: kinds[one.kind] for one in vars(_methods).values() if isinstance(one, _methods.Method)}
        for proto, module in (("inference", inference_pb2), ("models", models_pb2)):
            for service in module.DESCRIPTOR.services_by_name.values():
                for name, streams in re.findall(r"^  rpc (\w+)\((stream )?", read(f"proto/beamline/v1/{proto}.proto"), re.M):
                    self.assertIn(f"/{service.full_name}/{name}", known)
                    self.assertEqual(known[f"/{service.full_name}/{name}"].startswith("stream"), bool(streams))

    def test_version_is_the_projects(self):
        project, = re.findall(r"project\(beamline VERSION ([\d.]+)", read("CMakeLists.txt"))
        self.assertEqual(beamline_client.__version__, project)

    def test_everything_is_exported(self):
        for name in beamline_client.__all__:
            self.assertTrue(hasattr(beamline_client, name), name)
        declared = {name for name, one in vars(errors).items() if inspect.isclass(one) and one.__module__ == errors.__name__}
        self.assertEqual(declared - set(beamline_client.__all__), set())


class OldName(unittest.TestCase):
    """The module beamline, for programs of earlier releases."""

    def says(self, code):
        done = subprocess.run([sys.executable, "-W", "always::DeprecationWarning", "-c", code], capture_output=True, text=True, check=False,
                              timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.split(), done.stderr

    def test_it_is_the_package(self):
        said, errors_said = self.says("""
import beamline, beamline_client, beamline.v1.inference_pb2, beamline.errors
from beamline.v1 import models_pb2
from beamline.aio import AsyncClient
assert all(getattr(beamline, name) is getattr(beamline_client, name) for name in beamline_client.__all__)
assert beamline.__all__ == beamline_client.__all__
assert beamline.v1.inference_pb2 is beamline_client.v1.inference_pb2 and beamline.errors is beamline_client.errors
try:
    beamline.Client("localhost:1").generate("m", "p", max_new_tokens="5")
except TypeError as error:
    print("caught")
""")
        self.assertEqual(said, ["caught"])
        self.assertEqual(errors_said.count("DeprecationWarning: the module beamline is now beamline_client"), 1, errors_said)
        self.assertIn("<string>:2:", errors_said)  # the line that imports, not one of importlib

    def test_every_module_has_it(self):
        modules = {name.replace(os.sep, ".")[:-3] for folder, _, files in os.walk(FOLDER) for name in
                   (os.path.relpath(os.path.join(folder, file), FOLDER) for file in files) if name.endswith(".py")}
        public = {name for name in modules if not name.startswith("_") and "__init__" not in name}
        self.assertGreater(len(public), 10)
        self.says("; ".join(f"import beamline.{name}" for name in sorted(public)))

    def test_the_new_name_does_not_warn(self):
        self.assertEqual(self.says("import beamline_client; beamline_client.Client('localhost:1')")[1], "")


class Twins(unittest.TestCase):
    def test_both_clients_have_the_same_calls(self):
        for one, other in ((beamline_client.Client, beamline_client.AsyncClient), (beamline_client.AdminClient, beamline_client.AsyncAdminClient)):
            names = {name for name in dir(one) if not name.startswith("_")}
            self.assertEqual(names, {name for name in dir(other) if not name.startswith("_")})
            for name in names - {"address"}:
                parameters = [list(inspect.signature(getattr(kind, name)).parameters) for kind in (one, other)]
                self.assertEqual(*parameters, name)


class Numpy(unittest.TestCase):
    def setUp(self):
        response = inference_pb2.EncodeResponse(embeddings=[
            inference_pb2.Embedding(values=[1.5, -2], num_vectors=1, dimensions=2), inference_pb2.Embedding(values=[0, 3], num_vectors=1, dimensions=2)])
        self.embeddings = results.embeddings([response])

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "no numpy")
    def test_rows(self):
        rows = self.embeddings.numpy()
        self.assertEqual((rows.tolist(), rows.dtype.name), ([[1.5, -2], [0, 3]], "float32"))
        self.assertEqual(self.embeddings[0].numpy().tolist(), [[1.5, -2]])

    def test_it_need_not_be_there(self):
        self.assertEqual([list(one.values) for one in self.embeddings], [[1.5, -2], [0, 3]])
        with unittest.mock.patch.dict(sys.modules, {"numpy": None}):
            with self.assertRaisesRegex(ImportError, r"pip install 'beamline-client\[numpy\]'"):
                self.embeddings.numpy()


class Errors(unittest.TestCase):
    def test_each_code_that_the_server_sends_has_a_class(self):
        codes = {kind.code for kind in beamline_client.BeamlineError.__subclasses__()}
        for code in re.findall(r"^\| (?:[A-Z_]+, )*([A-Z]+(?:_[A-Z]+)*)[^|]*\|", read("docs/operating.md").split("## Errors")[1].split("\n## ")[0], re.M):
            self.assertIn(grpc.StatusCode[code], codes)

    def test_parts_of_the_servers_texts(self):
        refusals = re.findall(r"^  INVALID_ARGUMENT \[(.*?)\] (.*)$", read("tests/server/error_texts.txt"), re.M)
        self.assertGreater(len(refusals), 100)
        for field, text in refusals:
            violation = beamline_client.FieldViolation(field, text)
            with self.subTest(text):
                if "; accepted: " in text:
                    self.assertEqual(violation.accepted, text.split("; accepted: ")[1].split("; did you mean")[0])
                if match := re.match(rf"{re.escape(field)} (?:is|has) (?:'(.*?)'(?:; accepted|, )|(.*?)(?:; accepted|, a \w+Model))",
                                     text):
                    self.assertEqual(violation.value, match.group(1) if match.group(2) is None else match.group(2))

    def test_some_by_hand(self):
        for field, text, value, accepted in (
                ("limits.max_new_tokens", "limits.max_new_tokens is 0; accepted: 1 to 512", "0", "1 to 512"),
                ("model", "model is 'write-em'; accepted: a, write-en; did you mean 'write-en'?", "write-em", "a, write-en"),
                ("model", "model is 'x; accepted: y'; accepted: z", "x; accepted: y", "z"),
                ("prompt", "prompt has 600 tokens; accepted: at most 511", "600 tokens", "at most 511"),
                ("output.echo", "output.echo is true; accepted for decoder-only models only, which 'm' is not", "true",
                 "for decoder-only models only, which 'm' is not"),
                ("prompt", "two fields differ", "", "")):
            violation = beamline_client.FieldViolation(field, text)
            self.assertEqual((violation.value, violation.accepted), (value, accepted), text)

    def test_unknown_codes_and_details(self):
        error = errors.from_status(status_pb2.Status(code=77, message="?"))
        self.assertEqual((type(error), error.code, str(error)), (beamline_client.BeamlineError, grpc.StatusCode.UNKNOWN, "UNKNOWN: ?"))
        self.assertEqual((error.field, error.value, error.accepted, error.retry_delay), ("", "", "", None))

    def test_survive_pickling(self):
        error = beamline_client.InvalidArgumentError("model is 'x'; accepted: y", [beamline_client.FieldViolation("model", "model is 'x'; accepted: y")])
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((type(again), str(again), again.accepted), (type(error), str(error), "y"))


if __name__ == "__main__":
    unittest.main()
