"""Requests from Python's arguments: every field of the contract is reached, and what is wrong is named."""

import asyncio
import inspect
import typing
import unittest

from google.protobuf.message import Message

import beamline_client
from beamline_client import options, requests
from beamline_client.v1 import inference_pb2 as pb
from beamline_client.v1 import models_pb2

ALL = dict(
    max_new_tokens=9, min_new_tokens=2, stop=["."], stop_token_ids=[3], ignore_eos=True, include_stop=True,
    repetition_penalty=1.5, presence_penalty=0.5, frequency_penalty=0.25, no_repeat_ngram_size=3, logit_bias={7: -2.5},
    bad_words=["bad", [4, 5]], suppress_tokens=[6], forced_eos=0, logprobs=0, prompt_logprobs=2, return_token_ids=False,
    skip_special_tokens=False, echo=True, target_prefix=[1, 2], priority=-3, request_id="r", cache_salt="s",
    source_language="de", target_language="en")
SAMPLING = dict(temperature=0.5, top_k=0, top_p=0.75, min_p=0.0, typical_p=0.5, seed=0, num_sequences=2)
BEAM = dict(beam=4, length_penalty=-0.5, early_stopping="exhaustive", num_groups=2, diversity_penalty=0.5, num_sequences=3)


def set_fields(message, prefix=""):
    """The paths of the fields that are set, messages of other messages included."""
    found = set()
    for field, value in message.ListFields():
        found.add(prefix + field.name)
        if isinstance(value, Message):
            found |= set_fields(value, prefix + field.name + ".")
    return found


def fields_of(*descriptors):
    return {field.name for descriptor in descriptors for field in descriptor.fields}


class Generate(unittest.TestCase):
    def test_every_field_is_reached(self):
        sampled = requests.generate_request("m", "p", **ALL, **SAMPLING)
        searched = requests.generate_request("m", "p", **ALL, **BEAM)
        greedy = requests.generate_request("m", "p", greedy=True)
        found = set_fields(sampled) | set_fields(searched) | set_fields(greedy)
        expected = fields_of(pb.GenerateRequest.DESCRIPTOR)
        for part, kind in (("limits", pb.Limits), ("shaping", pb.Shaping), ("output", pb.Output), ("sampling", pb.Sampling),
                           ("beam", pb.Beam)):
            expected |= {f"{part}.{name}" for name in fields_of(kind.DESCRIPTOR)}
        self.assertEqual({path for path in found if path.split(".")[0] not in ("prompt", "target_prefix")}
                         | {"prompt", "target_prefix"}, expected)

    def test_conversations_are_prompts(self):
        call = {"function": {"name": "f", "arguments": {"z": 1, "a": "é"}}}
        chat = beamline_client.Chat([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": None, "tool_calls": [call]}],
                             tools=[{"name": "f"}], documents=[], template_options={"enable_thinking": False},
                             add_generation_prompt=False, template="tool_use")
        made = requests.generate_request("m", chat).prompt.chat
        self.assertEqual({field.name for field, _ in made.ListFields()}, fields_of(pb.Chat.DESCRIPTOR))
        self.assertEqual((made.messages[0].role, made.messages[0].content, made.messages[0].members_json), ("user", "Hi", ""))
        self.assertFalse(made.messages[1].HasField("content"))
        self.assertEqual(made.messages[1].members_json,
                         '{"content": null, "tool_calls": [{"function": {"name": "f", "arguments": {"z": 1, "a": "é"}}}]}')
        self.assertEqual((made.tools_json, made.documents_json), ('[{"name": "f"}]', "[]"))
        self.assertFalse(requests.score_request("m", beamline_client.Chat([{"role": "user"}]), ["c"]).prompt.chat.HasField("add_generation_prompt"))
        for wrong, text in ((["Hi"], "messages[0] is 'Hi'; accepted"), ([{"content": "x"}], "messages[0]"),
                            ([{"role": "user", "x": {1, 2}}], "messages[0] is no JSON")):
            with self.assertRaises(TypeError) as raised:
                requests.generate_request("m", beamline_client.Chat(wrong))
            self.assertIn(text, str(raised.exception))

    def test_values_are_kept(self):
        request = requests.generate_request("m", "p", **ALL, **BEAM)
        self.assertEqual((request.model, request.prompt.text, list(request.target_prefix.ids.ids)), ("m", "p", [1, 2]))
        self.assertEqual((request.beam.width, request.beam.early_stopping), (4, pb.EARLY_STOPPING_EXHAUSTIVE))
        self.assertEqual(dict(request.shaping.logit_bias), {7: -2.5})
        self.assertEqual([one.WhichOneof("kind") for one in request.shaping.bad_words], ["text", "ids"])
        sampling = requests.generate_request("m", "p", **SAMPLING).sampling
        self.assertTrue(all(sampling.HasField(name) for name in SAMPLING))  # a zero is a value
        self.assertEqual(list(requests.generate_request("m", "p", stop="end").limits.stop), ["end"])

    def test_what_is_left_out_is_the_models(self):
        self.assertEqual(set_fields(requests.generate_request("m", "p")), {"model", "prompt", "prompt.text"})
        self.assertEqual(set_fields(requests.generate_request("m", "p", beam=None, greedy=False)),
                         {"model", "prompt", "prompt.text"})

    def test_options_are_those_of_the_request(self):
        for function, declared in ((requests.generate_request, options.GenerateOptions),
                                   (requests.encode_request, options.EncodeOptions),
                                   (requests.classify_request, options.ClassifyOptions),
                                   (requests.rerank_request, options.ClassifyOptions),
                                   (requests.classify_tokens_request, options.ClassifyTokensOptions),
                                   (requests.fill_mask_request, options.FillMaskOptions)):
            named = {name for name, one in inspect.signature(function).parameters.items() if one.kind == one.KEYWORD_ONLY}
            self.assertEqual(named, set(declared.__annotations__))

    def test_ways_to_choose_tokens_do_not_mix(self):
        for mixed, named in ((dict(greedy=True, beam=2), "greedy .*beam"), (dict(top_k=5, beam=2), "top_k .*beam"),
                             (dict(greedy=True, length_penalty=1.0), "greedy .*length_penalty")):
            with self.assertRaisesRegex(ValueError, f"{named}.*accepted: "):
                requests.generate_request("m", "p", **mixed)
        for alone in (dict(num_sequences=2), dict(num_sequences=2, greedy=True)):
            with self.assertRaisesRegex(ValueError, "num_sequences is 2; accepted with"):
                requests.generate_request("m", "p", **alone)

    def test_prompts(self):
        self.assertEqual(requests.generate_request("m", "").prompt.WhichOneof("kind"), "text")
        self.assertEqual(list(requests.generate_request("m", (5, 6)).prompt.ids.ids), [5, 6])
        self.assertEqual(requests.generate_request("m", []).prompt.WhichOneof("kind"), "ids")
        try:
            import numpy
        except ImportError:
            return
        self.assertEqual(list(requests.generate_request("m", numpy.array([5, 6])).prompt.ids.ids), [5, 6])

    def test_wrong_types_are_named(self):
        ids, narrow = "accepted: a whole number$", "accepted: -2147483648 to 2147483647"
        for wrong, named in (
                (dict(model=None), "model is None; accepted: a text"), (dict(prompt=b"x"), "prompt is a bytes; accepted: a text, several token ids, or a Chat"),
                (dict(prompt=None), "prompt is None; accepted: a text, several"), (dict(prompt=5), "prompt is 5; accepted: a text, several"),
                (dict(prompt={"role": "user"}), "prompt is {'role': 'user'}; accepted: a text, several"),
                (dict(prompt=["a"]), rf"prompt\[0\] is 'a'; {ids}"), (dict(prompt=[1, 2**40]), rf"prompt\[1\] is 1099511627776; {narrow}"),
                (dict(prompt=[1, 2.5]), rf"prompt\[1\] is 2.5; {ids}"), (dict(prompt="\ud800"), "prompt is no text that UTF-8 can hold"),
                (dict(max_new_tokens="5"), f"max_new_tokens is '5'; {ids}"), (dict(max_new_tokens=5.0), f"max_new_tokens is 5.0; {ids}"),
                (dict(max_new_tokens=2**40), f"max_new_tokens is 1099511627776; {narrow}"), (dict(max_new_tokens=[5]), rf"max_new_tokens is \[5\]; {ids}"),
                (dict(logprobs=True), f"logprobs is True; {ids}"), (dict(seed=-1), "seed is -1; accepted: 0 to 18446744073709551615"),
                (dict(temperature="hot"), "temperature is 'hot'; accepted: a number"), (dict(temperature=True), "temperature is True; accepted: a number"),
                (dict(stop=5), "stop is 5; accepted: several texts"), (dict(stop=["a", 5]), r"stop\[1\] is 5; accepted: a text"),
                (dict(stop=["a", "\ud800"]), r"stop\[1\] is no text that UTF-8 can hold"),
                (dict(stop_token_ids=5), "stop_token_ids is 5; accepted: several, each a whole number"),
                (dict(stop_token_ids="ab"), "stop_token_ids is a str; accepted: several, each a whole number"),
                (dict(stop_token_ids=iter([1, "b"])), rf"stop_token_ids\[1\] is 'b'; {ids}"),
                (dict(bad_words=5), "bad_words is 5; accepted: several texts or lists of ids"), (dict(bad_words="ab"), "bad_words is a str; accepted: several"),
                (dict(bad_words=["x", b"x"]), r"bad_words\[1\] is a bytes"),
                (dict(logit_bias={"a": 1.0}), f"logit_bias is {{'a': 1.0}}; accepted as a key: a whole number"),
                (dict(logit_bias={1: "a"}), r"logit_bias\[1\] is 'a'; accepted: a number"),
                (dict(logit_bias=[1]), r"logit_bias is \[1\]; accepted: a mapping; its keys: a whole number; its values: a number"),
                (dict(beam="4"), f"beam is '4'; {ids}"), (dict(beam=2, early_stopping="soon"), "early_stopping is 'soon'; accepted: eager, "),
                (dict(num_sequences="2", sample=True), f"num_sequences is '2'; {ids}"), (dict(greedy="no"), "greedy is 'no'; accepted: True or False"),
                (dict(sample="no"), "sample is 'no'; accepted: True or False"), (dict(echo="no"), "echo is 'no'; accepted: True or False"),
                (dict(cache_salt=5), "cache_salt is 5; accepted: a text"), (dict(target_prefix=5), "target_prefix is 5; accepted: a text, several")):
            with self.subTest(named), self.assertRaisesRegex((TypeError, ValueError), f"^{named}"):
                requests.generate_request(**{"model": "m", "prompt": "p", **wrong})

    def test_values_of_other_libraries_are_taken(self):
        class Whole:
            def __index__(self):
                return 7

        made = requests.generate_request("m", [Whole()], max_new_tokens=Whole(), temperature=1, echo=1, stop=("a", "b"), logit_bias={Whole(): 1})
        self.assertEqual((list(made.prompt.ids.ids), made.limits.max_new_tokens, made.sampling.temperature, made.output.echo), ([7], 7, 1.0, True))
        try:
            import numpy
        except ImportError:
            return
        made = requests.generate_request("m", "p", max_new_tokens=numpy.int64(3), temperature=numpy.float32(0.5), echo=numpy.bool_(True),
                                         stop_token_ids=numpy.array([4, 5]))
        self.assertEqual((made.limits.max_new_tokens, made.sampling.temperature, made.output.echo, list(made.limits.stop_token_ids)),
                         (3, 0.5, True, [4, 5]))


class UnknownArguments(unittest.TestCase):
    """What is no argument of a call is named, with its value, what is accepted, and what was meant."""

    CALLS = {"generate": ("m", "p"), "generate_stream": ("m", "p"), "generate_many": ("m", ["p"]), "encode": ("m", ["a"]), "encode_many": ("m", ["a"]),
             "classify": ("m", ["a"]), "rerank": ("m", "q", ["a"]), "classify_tokens": ("m", ["a"]), "fill_mask": ("m", ["a"]),
             "score": ("m", "p", ["a"]), "tokenize": ("m", "a"), "detokenize": ("m", [1]), "list_models": (), "get_model": ("m",),
             "health": ("m",), "wait_until_healthy": ("m",)}
    ADMIN_CALLS = {"load_model": ("m",), "unload_model": ("m",), "restart_replica": ("m",), "list_models": (), "get_model": ("m",)}

    def error_of(self, kind, name, *positional, **keywords):
        call = getattr(kind("localhost:1"), name)
        with self.assertRaises(TypeError) as raised:
            result = call(*positional, **keywords)
            if inspect.iscoroutine(result):
                asyncio.run(result)
        return str(raised.exception)

    def test_every_call_of_every_client_names_it(self):
        for kinds, calls in (((beamline_client.Client, beamline_client.AsyncClient), self.CALLS),
                             ((beamline_client.AdminClient, beamline_client.AsyncAdminClient), self.ADMIN_CALLS)):
            for kind in kinds:
                public = {name for name, one in inspect.getmembers(kind, callable) if not name.startswith("_")}
                self.assertEqual(public - {"close"}, set(calls))
                for name, positional in calls.items():
                    with self.subTest(kind=kind, name=name):
                        said = self.error_of(kind, name, *positional, frobnicate=[1, 2])
                        self.assertRegex(said, rf"^frobnicate=\[1, 2\] is no argument of {name}\(\); accepted: \w+(, \w+)*$")
                        self.assertIn("timeout", said)

    def test_what_was_meant(self):
        for name, wrong, meant in (
                ("generate", "max_tokens", "'max_new_tokens'"), ("generate_stream", "max_completion_tokens", "'max_new_tokens'"),
                ("generate_many", "max_length", "'max_new_tokens'"), ("generate", "min_tokens", "'min_new_tokens'"), ("generate", "n", "'num_sequences'"),
                ("generate", "num_beams", "'beam'"), ("generate", "do_sample", "'sample'"), ("generate", "stop_strings", "'stop'"),
                ("generate", "eos_token_id", "'stop_token_ids'"), ("generate", "top_logprobs", "'logprobs'"), ("generate", "temprature", "'temperature'"),
                ("generate", "messages", "prompt=Chat(messages)"), ("generate", "stream", "generate_stream()"), ("generate", "deadline", "'timeout'"),
                ("encode", "normalize_embeddings", "'normalize'"), ("encode", "truncation", "'truncate'"), ("rerank", "top_n", "'top'"),
                ("rerank", "top_k", "'top'"), ("classify", "n", "'top'"), ("fill_mask", "top", "'top_k'"), ("score", "src_lang", "'source_language'")):
            with self.subTest(wrong):
                said = self.error_of(beamline_client.Client, name, *self.CALLS[name], **{wrong: 5})
                self.assertTrue(said.startswith(f"{wrong}=5 is no argument of {name}(); accepted: "), said)
                self.assertTrue(said.endswith(f"; did you mean {meant}?"), said)
        self.assertTrue(self.error_of(beamline_client.AdminClient, "load_model", "m", max_model_length=5).endswith("did you mean 'max_model_len'?"))

    def test_options_of_other_calls(self):
        for name, wrong, owner in (("encode", "top_p", "generate"), ("encode", "stop", "generate"), ("score", "temperature", "generate"),
                                   ("generate", "pooling", "encode"), ("tokenize", "truncate", "encode, classify and rerank, classify_tokens, fill_mask")):
            said = self.error_of(beamline_client.Client, name, *self.CALLS[name], **{wrong: 1})
            self.assertTrue(said.endswith(f"; it is an option of {owner}"), said)

    def test_clients(self):
        for kind in (beamline_client.Client, beamline_client.AsyncClient, beamline_client.AdminClient):
            for wrong, meant in (("host", "address"), ("base_url", "address"), ("max_retries", "retry"), ("headers", "metadata"), ("ssl", "tls")):
                with self.assertRaisesRegex(TypeError, rf"^{wrong}=1 is no argument of {kind.__name__}\(\); accepted: .*; did you mean '{meant}'\?$"):
                    kind(**{wrong: 1})
        with self.assertRaisesRegex(TypeError, r"^api_key=\.\.\. is no argument .*; did you mean 'token'\?$") as raised:
            beamline_client.Client(api_key="secret")
        self.assertNotIn("secret", str(raised.exception))
        for wrong, named in ((dict(address=50051), "address is 50051; accepted: a text"), (dict(retry=3), "retry is 3; accepted: a RetryPolicy"),
                             (dict(tls="yes"), "tls is 'yes'; accepted: True, False, or Tls"), (dict(token=5), "token is of type int; accepted: a text"),
                             (dict(client_id=5), "client_id is 5; accepted: a text"), (dict(metadata={"a": "b"}), "metadata is {'a': 'b'}; accepted: pairs"),
                             (dict(metadata=5), "metadata is 5; accepted: pairs"), (dict(channel_options=[1]), r"channel_options is \[1\]; accepted: pairs"),
                             (dict(max_message_bytes="1"), "max_message_bytes is '1'; accepted: -1 to 2147483647"),
                             (dict(timeout="5"), "timeout is '5'; accepted: more than 0 seconds")):
            with self.subTest(named), self.assertRaisesRegex((TypeError, ValueError), f"^{named}"):
                beamline_client.Client(**{"address": "localhost:1", **wrong})
        self.assertTrue(beamline_client.Client("localhost:1", metadata=iter([("a", "b")]))._metadata)

    def test_other_values(self):
        client, admin = beamline_client.Client("localhost:1"), beamline_client.AdminClient("localhost:1")
        for call, positional, keywords, named in (
                (client.encode, ("m", None), {}, "inputs is None; accepted: several texts or lists of ids"),
                (client.encode, (None, ["a"]), {}, "model is None; accepted: a text"),
                (client.encode, ("m", ["a"]), dict(batch_size="8"), "batch_size is '8'; accepted: 1 to 4096"),
                (client.encode, ("m", ["a"]), dict(dimensions="8"), "dimensions is '8'; accepted: a whole number"),
                (client.encode, ("m", ["a"]), dict(normalize="yes"), "normalize is 'yes'; accepted: True or False"),
                (client.encode, ("m", ["a"]), dict(truncate=True), "truncate is True; accepted: none, right, left"),
                (client.classify, ("m", 5), {}, "inputs is 5; accepted: several texts, pairs"),
                (client.rerank, ("m", None, ["a"]), {}, "query is None; accepted: a text"),
                (client.rerank, ("m", "q", None), {}, "documents is None; accepted: several texts"),
                (client.rerank, ("m", "q", ["a", 5]), {}, r"documents\[1\] is 5; accepted: a text"),
                (client.classify_tokens, ("m", {"a": 1}), {}, "inputs is {'a': 1}; accepted: several texts"),
                (client.classify_tokens, ("m", ["a"]), dict(ignore_labels=["O", 5]), r"ignore_labels\[1\] is 5; accepted: a text"),
                (client.fill_mask, ("m", ["a"]), dict(targets=5), "targets is 5; accepted: several texts"),
                (client.score, ("m", "p", None), {}, "continuations is None; accepted: several texts or lists of ids"),
                (client.score, ("m", "p", ["a", 5]), {}, r"continuations\[1\] is 5; accepted: a text, several token ids"),
                (client.score, ("m", "p", ["a"]), dict(per_token="yes"), "per_token is 'yes'; accepted: True or False"),
                (client.tokenize, ("m", None), {}, "text is None; accepted: a text"), (client.detokenize, ("m", 5), {}, "ids is 5; accepted: several token ids"),
                (client.detokenize, ("m", ["a"]), {}, r"ids\[0\] is 'a'; accepted: a whole number"), (client.get_model, (None,), {}, "name is None; accepted: a text"),
                (client.health, (5,), {}, "model is 5; accepted: a text"), (client.generate_many, ("m", None), {}, "prompts is None; accepted: several"),
                (admin.load_model, ("m",), dict(version="2"), "version is '2'; accepted: a whole number"),
                (admin.load_model, ("m",), dict(replicas=2), "replicas is 2; accepted: a text"),
                (admin.unload_model, ("m",), dict(grace="1"), "grace is '1'; accepted: 0 to 86400 seconds"),
                (beamline_client.RetryPolicy, ("3",), {}, "max_attempts is '3'; accepted: 1 to 1000"),
                (beamline_client.RetryPolicy, (2.5,), {}, "max_attempts is 2.5; accepted: 1 to 1000")):
            with self.subTest(named), self.assertRaisesRegex((TypeError, ValueError), f"^{named}"):
                call(*positional, **keywords)


class Others(unittest.TestCase):
    def test_encode(self):
        request = requests.encode_request("m", ["a", [1]], pooling="cls", normalize=False, dimensions=8, truncate="left",
                                          prompt_name="query", priority=1, request_id="r")
        self.assertEqual({field.name for field, _ in request.ListFields()}, fields_of(pb.EncodeRequest.DESCRIPTOR))
        self.assertEqual((request.pooling, request.truncate), (pb.POOLING_CLS, pb.TRUNCATION_LEFT))
        with self.assertRaisesRegex(ValueError, "pooling is 'max'; accepted: model, mean, cls, last, none"):
            requests.encode_request("m", ["a"], pooling="max")
        client = beamline_client.Client("localhost:1")
        for wrong, named in ((dict(inputs="text"), "inputs is a str"), (dict(inputs=[5]), r"inputs\[0\] is 5"),
                             (dict(inputs=["a"], batch_size=0), "batch_size is 0; accepted: 1 to 4096")):
            with self.assertRaisesRegex((TypeError, ValueError), named):
                client.encode("m", **wrong)

        for kind in (beamline_client.Client, beamline_client.AsyncClient):
            with self.assertRaisesRegex(TypeError, "prompts is a str"):
                kind("localhost:1").generate_many("m", "text")

    def test_classify(self):
        request = requests.classify_request("m", ["a", ("b", "c"), (5, 6)], function="sigmoid", top=2, truncate="right", priority=1,
                                            request_id="r")
        self.assertEqual({field.name for field, _ in request.ListFields()}, fields_of(pb.ClassifyRequest.DESCRIPTOR))
        self.assertEqual([one.WhichOneof("kind") for one in request.inputs], ["text", "pair", "ids"])
        self.assertEqual((request.inputs[1].pair.first, request.inputs[1].pair.second), ("b", "c"))
        self.assertEqual((request.function, request.truncate), (pb.SCORE_FUNCTION_SIGMOID, pb.TRUNCATION_RIGHT))
        for wrong, named in ((dict(inputs="text"), "inputs is a str"), (dict(inputs=[("a", "b", "c")]), r"inputs\[0\] is \('a', 'b', 'c'\)"),
                             (dict(inputs=[("a", 5)]), r"inputs\[0\] is"), (dict(inputs=[None]), r"inputs\[0\] is None"),
                             (dict(inputs=["a"], function="tanh"), "function is 'tanh'; accepted: model, none, sigmoid, softmax"),
                             (dict(inputs=["a"], top="2"), "top is '2'")):
            with self.subTest(named), self.assertRaisesRegex((TypeError, ValueError), named):
                requests.classify_request("m", **wrong)

    def test_rerank(self):
        request = requests.rerank_request("m", "q", ["a", "b"], function="none", top=1, truncate="left", priority=1, request_id="r")
        self.assertEqual({field.name for field, _ in request.ListFields()}, fields_of(pb.RerankRequest.DESCRIPTOR))
        self.assertEqual(list(request.documents), ["a", "b"])
        with self.assertRaisesRegex(TypeError, "documents is a str"):
            requests.rerank_request("m", "q", "text")

    def test_classify_tokens(self):
        request = requests.classify_tokens_request("m", ["a", "b"], aggregation="first", ignore_labels=["O", "X"], top=2,
                                                   truncate="right", priority=1, request_id="r")
        self.assertEqual({field.name for field, _ in request.ListFields()}, fields_of(pb.ClassifyTokensRequest.DESCRIPTOR))
        self.assertEqual((list(request.inputs), list(request.ignore_labels.labels)), (["a", "b"], ["O", "X"]))
        self.assertEqual(request.aggregation, pb.AGGREGATION_FIRST)
        self.assertFalse(requests.classify_tokens_request("m", ["a"]).HasField("ignore_labels"))
        self.assertTrue(requests.classify_tokens_request("m", ["a"], ignore_labels=[]).HasField("ignore_labels"))
        for wrong, named in ((dict(inputs="text"), "inputs is a str"), (dict(inputs=["a"], ignore_labels="O"), "ignore_labels is a str"),
                             (dict(inputs=["a"], aggregation="mean"), "aggregation is 'mean'; accepted: none, simple, first, average, max")):
            with self.subTest(named), self.assertRaisesRegex((TypeError, ValueError), named):
                requests.classify_tokens_request("m", **wrong)

    def test_fill_mask(self):
        request = requests.fill_mask_request("m", ["a [MASK]"], top_k=2, targets=["x", "y"], truncate="left", priority=1, request_id="r")
        self.assertEqual({field.name for field, _ in request.ListFields()}, fields_of(pb.FillMaskRequest.DESCRIPTOR))
        self.assertEqual((list(request.inputs), list(request.targets), request.top_k), (["a [MASK]"], ["x", "y"], 2))
        for wrong, named in ((dict(inputs="text"), "inputs is a str"), (dict(inputs=["a"], targets="x"), "targets is a str")):
            with self.subTest(named), self.assertRaisesRegex(TypeError, named):
                requests.fill_mask_request("m", **wrong)

    def test_score(self):
        request = requests.score_request("m", "p", ["a", [1]], per_token=True, priority=1, request_id="r", cache_salt="s",
                                         source_language="de", target_language="en")
        self.assertEqual({field.name for field, _ in request.ListFields()}, fields_of(pb.ScoreRequest.DESCRIPTOR))
        with self.assertRaisesRegex(TypeError, "continuations is a str"):
            requests.score_request("m", "p", "abc")

    def test_models(self):
        settings = dict(dtype="bfloat16", weights="float16", compute="float32", cache="bfloat16", device="cuda:1", replicas="2",
                        devices=["cuda:0", "cuda:1"], max_batch_tokens=16, max_gap_ms=0, max_sequences=1, cache_bytes=0, prefix_cache=False, speculative_tokens=0, max_queued_requests=1,
                        max_queued_tokens=1, max_model_len=2,
                        warm_up="false", tensor_parallel=2, pipeline_parallel=2, rerank_template="{query}{document}", rerank_tokens=["yes", "no"], deterministic=True)
        request = requests.load_model_request("m", "folder", 2, **settings)
        self.assertEqual({field.name for field, _ in request.settings.ListFields()}, fields_of(models_pb2.ModelSettings.DESCRIPTOR))
        self.assertEqual(set(settings), set(options.ModelSettings.__annotations__))
        self.assertEqual((request.folder, request.version, request.settings.dtype), ("folder", 2, models_pb2.DATA_TYPE_BFLOAT16))
        self.assertFalse(requests.load_model_request("m", None, None).HasField("settings"))
        self.assertEqual(requests.load_model_request("m", None, None, dtype="auto").settings.dtype, models_pb2.DATA_TYPE_UNSPECIFIED)
        with self.assertRaisesRegex(ValueError, "dtype is 'half'; accepted: auto, float32"):
            requests.load_model_request("m", None, None, dtype="half")
        with self.assertRaisesRegex(TypeError, "max_tokens"):
            requests.load_model_request("m", None, None, max_tokens=5)
        self.assertEqual(requests.unload_model_request("m", None, 1.5).grace.ToMilliseconds(), 1500)
        restart = requests.restart_replica_request("m", 3, 2, 1.5)
        self.assertEqual((restart.name, restart.replica, restart.version, restart.grace.ToMilliseconds()), ("m", 3, 2, 1500))
        for grace in (-1, 86401, float("nan")):
            with self.assertRaisesRegex(ValueError, "grace is .*; accepted: 0 to 86400 seconds"):
                requests.unload_model_request("m", None, grace)
            with self.assertRaisesRegex(ValueError, "grace is .*; accepted: 0 to 86400 seconds"):
                requests.restart_replica_request("m", 0, None, grace)

    def test_choices_are_those_of_the_contract(self):
        for declared, kind, prefix in ((options.EarlyStopping, pb.EarlyStopping, "EARLY_STOPPING_"),
                                       (options.Pooling, pb.Pooling, "POOLING_"), (options.Truncation, pb.Truncation, "TRUNCATION_")):
            names = {name[len(prefix):].lower() for name in kind.keys()} - {"unspecified"}
            self.assertEqual(set(typing.get_args(declared)), names)
        for declared, kind, prefix in ((beamline_client.FinishReason, pb.FinishReason, "FINISH_REASON_"), (beamline_client.Task, models_pb2.Task, "TASK_"),
                                       (beamline_client.ModelState, models_pb2.ModelState, "MODEL_STATE_"),
                                       (beamline_client.ReplicaState, models_pb2.ReplicaState, "REPLICA_STATE_"),
                                       (beamline_client.DataType, models_pb2.DataType, "DATA_TYPE_")):
            self.assertEqual({one.value for one in declared}, {name[len(prefix):].lower() for name in kind.keys()})

    def test_addresses(self):
        for address in ("localhost:50051", "10.0.0.1:1", "[::1]:50051", "unix:/run/beamline", "dns:///beamline:50051",
                        "ipv4:10.0.0.1:50051,10.0.0.2:50051", "xds:///beamline"):
            self.assertEqual(beamline_client.Client(address).address, address)
        for address in ("localhost", "localhost:", "localhost:0", "localhost:70000", "::1:50051", "http://localhost:50051", "a b:1",
                        "dns:///beamline"):
            with self.assertRaisesRegex(ValueError, "address is .*; accepted: host:port"):
                beamline_client.Client(address)


if __name__ == "__main__":
    unittest.main()
