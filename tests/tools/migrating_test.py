"""docs/migrating.md says "none" of what has no counterpart, and no setting, field, call or metric is one.

Names are those of the contract, of the tables in docs/settings.md and docs/metrics.md (which other tests compare with the server) and of the calls that
the server counts. For each "none" the table below has what a counterpart would be called: a row without an entry fails, and so does an
entry that a name matches.
"""

import os
import re
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# By the left cell of a row: regular expressions that a counterpart's name would match. A cell that says "none" of a part has that part.
NONE = {
    "`top_p_decay`, `top_p_min`, `top_p_reset_ids`": ("top_p_", "decay"),
    "soft prompts, prefix tuning, IA3": ("soft_?prompt", "ia3", "adapter", "prompt_embed"),
    "interactive generation (`continue_gen`, `session_len`)": ("session", "continue"),
    "`dynamic_batching`: `preferred_batch_size`, `max_queue_delay_microseconds`": ("queue_delay", "preferred"),
    "`int8_mode`": ("int8", "quanti[sz]"),
    "sequence batcher, ensembles, response cache, rate limiter": ("ensemble", "response_cache", "correlation", "sequence_(start|end)$",
                                                                  "rate_limit"),
    "`--model-control-mode=poll`": ("poll_(seconds|interval|models)", "repository_poll", "watch_folder"),
    "shared memory, `TraceSetting`, `LogSettings`": ("shared_?memory", "trace_?setting", "log_?settings"),
    "`nv_gpu_utilization`, `nv_gpu_power_usage`": ("utili[sz]ation", "power"),
    "`patience`, `coverage_penalty`, `prefix_bias_beta`": ("patience", "coverage", "bias_beta"),
    "`return_alternatives`": ("alternative",),
    "`max_input_length` (1024): longer sources are cut": ("max_input_length", "max_source"),
    "`return_attention`, `replace_unknowns`, `use_vmap`": ("return_attention", "attentions?$", "unknown", "vmap"),
    "`static_prompt`, `cache_static_prompt`": ("static_prompt",),
    "converters, `ct2-transformers-converter`": ("convert",),
    "`compute_type` int16": ("int16",),
    "`CT2_FORCE_CPU_ISA`, `CT2_USE_MKL`": ("_isa$", "mkl"),
    "`EmbedSparse`, `RerankStream`, with their HTTP twins": ("sparse", "rerank_?stream"),
    "`--hf-api-token`": ("api_token", "hf_token", "hub_token"),
    "`--auto-truncate`": ("auto_truncate",),
    "`--cors-allow-origin`": ("cors", "origin"),
    "`te_request_tokenization_duration`": ("tokeni[sz]ation", "tokeni[sz]e_seconds"),
    "`allowed_token_ids`": ("allowed",),
    "`detokenize`, `spaces_between_special_tokens`": ("^detokenize$", "spaces_between"),
    "structured outputs (json, regex, choice, grammar)": ("json_schema", "regex", "grammar", "guided", "structured"),
    "images, LoRA": ("image", "lora", "adapter"),
    "`--speculative-config`, n-gram": ("draft",),
    "`--quantization`, `--enable-lora`": ("quanti[sz]", "lora", "adapter"),
    "`vllm:request_success` by finish reason": ("finish_reason$",),
    "`vllm:request_decode_time_seconds`, `vllm:request_inference_time_seconds`": ("decode_(time_)?seconds", "inference_(time_)?seconds"),
}
# Names that an expression finds in another meaning.
OTHERS = {
    "Detokenize": "the call; the option leaves an answer's text out",
    "SequenceEnd.finish_reason": "of an answer, not of a metric",
    "Sequence.finish_reason": "the same",
    "PartialSequence.finish_reason": "the same",
}


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def rows():
    """Left and right cell of each row of two."""
    return re.findall(r"^\| ([^|]+?) \| ([^|]+?) \|$", read("docs/migrating.md"), re.M)


def names():
    """Of fields (Message.field), calls, settings, metrics and their labels."""
    found = set()
    for path in ("inference", "models"):
        text = re.sub(r"//.*", "", read(f"proto/beamline/v1/{path}.proto"))
        found |= set(re.findall(r"^\s*rpc (\w+)\(", text, re.M))
        for message, body in re.findall(r"^message (\w+) \{\n(.*?)^\}", text, re.M | re.S):
            found |= {f"{message}.{field}" for field in re.findall(r"(\w+) = \d+[;\s\[]", body)}
    found |= {name.split(".")[-1] for name in re.findall(r'"([\w.]+)"', read("server/telemetry/call_record.h").split("kRpcNames")[1].split(");")[0])}
    guide = read("docs/settings.md") + read("docs/metrics.md")
    for cell, rest in re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| (.*) \|$", guide, re.M):
        found |= set(re.findall(r"`(\w+)`", cell))
        for labels in re.findall(r"\bby ((?:`\w+`(?:, | and )?)+)", rest):
            found |= {f"{cell.split('`')[1]}.{label}" for label in re.findall(r"`(\w+)`", labels)}
    return found


def says_none(cell):
    return re.match(r"none\b", cell) or re.search(r": none\b", cell)


class Migrating(unittest.TestCase):
    def test_the_names_are_found(self):
        found = names()
        for name in ("Sampling.top_p", "Output.logprobs", "Generate", "Rerank", "ModelInfer", "Embed", "max_sequences", "http_listen",
                     "beamline_queue_seconds", "beamline_requests_total.code", "tensor_parallel"):
            self.assertIn(name, found)
        self.assertGreater(len(found), 250)

    def test_each_none_has_an_entry(self):
        found = {left for left, right in rows() if says_none(right)}
        self.assertGreater(len(found), 20)
        self.assertEqual(found, set(NONE))

    def test_what_has_none_has_none(self):
        for left, expressions in NONE.items():
            for expression in expressions:
                matching = {name for name in names() if re.search(expression, name.split(".")[-1].lower()) and name not in OTHERS}
                self.assertEqual(matching, set(), f"{left} is said to have no counterpart")

    def test_an_expression_finds_what_there_is(self):
        # What the page once said "none" of.
        for expression, name in (("tensor_parallel", "tensor_parallel"), ("otlp", "otlp_endpoint"), ("request_prompt_tokens", "beamline_request_prompt_tokens"),
                                 ("classify", "Classify"), ("replicas", "replicas"), ("log_format", "log_format"), ("identity", "identity_file")):
            self.assertIn(name, {one for one in names() if re.search(expression, one.split(".")[-1].lower())})

    def test_right_cells_name_what_there_is(self):
        found = names() | {name.split(".")[-1] for name in names()}
        checked = [(left, name) for left, right in rows() for name in re.findall(r"`((?:[A-Z]\w+\.)?[a-z_]+)`", right)]
        self.assertGreater(len(checked), 100)
        self.assertEqual([(left, name) for left, name in checked if name not in found], [])


if __name__ == "__main__":
    unittest.main()
