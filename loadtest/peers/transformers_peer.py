"""transformers in this process, float32 by default: requests wait in a queue and are served by generate(), one at a time or
as padded batches of those that wait. A batch runs until its longest answer ends; a stream ends with its own last token,
another call with the batch. A batch of samples draws with the seed of its first."""

from __future__ import annotations

import asyncio
import copy
import importlib
import json
import os
import threading
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from peer import Answer, Peer, PeerError, take_model
from plan import Fields, PlanError

# The contract's field -> generate()'s.
SAMPLING = {"temperature": "temperature", "top_k": "top_k", "top_p": "top_p", "min_p": "min_p", "typical_p": "typical_p",
            "num_sequences": "num_return_sequences"}
BEAM = {"width": "num_beams", "num_sequences": "num_return_sequences", "length_penalty": "length_penalty"}
EARLY_STOPPING = {"EARLY_STOPPING_EAGER": True, "EARLY_STOPPING_HEURISTIC": False, "EARLY_STOPPING_EXHAUSTIVE": "never"}
OTHERS = {"limits.min_new_tokens": "min_new_tokens", "shaping.repetition_penalty": "repetition_penalty",
          "shaping.no_repeat_ngram_size": "no_repeat_ngram_size"}
POOLINGS = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls", "pooling_mode_lasttoken": "last"}
MODULES = {"Transformer", "Pooling", "Normalize"}


@dataclass(frozen=True)
class Prepared:
    folder: str
    is_encode: bool
    is_stream: bool
    prompts: list[Any]  # texts or ids; one of a generation
    options: tuple[tuple[str, Any], ...] = ()  # of generate(); equal ones can share a batch
    limit: int = 0
    seed: int | None = None
    truncate: bool = False

    def fits(self, other: Prepared) -> bool:
        return (self.folder, self.is_encode, self.options) == (other.folder, other.is_encode, other.options)


@dataclass
class Job:
    prepared: Prepared
    answer: Answer
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[None]
    ended: set[int] = field(default_factory=set)  # of a stream's sequences

    def finish(self, error: BaseException | None = None) -> None:
        def set_result() -> None:
            if self.future.done():
                return
            if error is None:
                self.future.set_result(None)
            else:
                self.future.set_exception(PeerError("INTERNAL", f"{type(error).__name__}: {error}"))

        self.loop.call_soon_threadsafe(set_result)


def _read_json(path: str, default: Any) -> Any:
    if not os.path.exists(path):
        return default
    with open(path, encoding="utf-8") as file:
        return json.load(file)


class Model:
    """A checkpoint and its tokenizer."""

    def __init__(self, torch: Any, transformers: Any, folder: str, is_encode: bool, device: str, dtype: str) -> None:
        self.torch, self.device = torch, device
        config = transformers.AutoConfig.from_pretrained(folder)
        self.is_encoder_decoder = bool(config.is_encoder_decoder)
        factory = (transformers.AutoModel if is_encode else transformers.AutoModelForSeq2SeqLM if self.is_encoder_decoder
                   else transformers.AutoModelForCausalLM)
        self.model = factory.from_pretrained(folder, dtype=getattr(torch, dtype)).eval().to(device)
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        if is_encode:
            self._read_modules(folder)
            return
        ends = self.model.generation_config.eos_token_id
        self.ends = set(ends if isinstance(ends, list) else [] if ends is None else [ends])
        pad = self.model.generation_config.pad_token_id
        self.pad = pad if pad is not None else min(self.ends, default=0)

    def _read_modules(self, folder: str) -> None:
        """As sentence-transformers' folders say."""
        modules = _read_json(os.path.join(folder, "modules.json"), [])
        types = [str(module["type"]).rsplit(".", 1)[-1] for module in modules]
        if unknown := set(types) - MODULES:
            raise PlanError(f"{folder}/modules.json has {min(unknown)}; accepted: {', '.join(sorted(MODULES))}")
        self.normalizes = "Normalize" in types
        self.pooling = "mean"
        for module in modules:
            if module["type"].endswith("Pooling"):
                pooling = _read_json(os.path.join(folder, module["path"], "config.json"), {})
                asked = [name for mode, name in POOLINGS.items() if pooling.get(mode)]
                if len(asked) != 1:
                    raise PlanError(f"{folder}/{module['path']}/config.json asks for none of {', '.join(POOLINGS)}, or several")
                self.pooling = asked[0]
        self.longest = _read_json(os.path.join(folder, "sentence_bert_config.json"), {}).get("max_seq_length")

    def ids_of(self, prompt: Any, truncate: bool = False) -> list[int]:
        if not isinstance(prompt, str):
            return list(prompt)
        if not truncate:
            return list(self.tokenizer(prompt)["input_ids"])
        return list(self.tokenizer(prompt, truncation=True, max_length=self.longest)["input_ids"])

    def pad_rows(self, rows: list[list[int]], pad: int, left: bool) -> tuple[Any, Any]:
        width = max(map(len, rows))
        pads = [[pad] * (width - len(row)) for row in rows]
        ids = [fill + row if left else row + fill for row, fill in zip(rows, pads)]
        mask = [[0] * len(fill) + [1] * len(row) if left else [1] * len(row) + [0] * len(fill) for row, fill in zip(rows, pads)]
        return (self.torch.tensor(ids, device=self.device), self.torch.tensor(mask, device=self.device))

    def encode(self, jobs: list[Job]) -> None:
        rows = []
        for job in jobs:
            own = [self.ids_of(prompt, job.prepared.truncate) for prompt in job.prepared.prompts]
            job.answer.prompt_tokens = sum(map(len, own))
            rows += own
        ids, mask = self.pad_rows(rows, self.tokenizer.pad_token_id or 0, left=False)
        hidden = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
        if self.pooling == "mean":
            weights = mask.unsqueeze(-1).to(hidden.dtype)
            vectors = (hidden * weights).sum(1) / weights.sum(1)
        else:
            last = mask.sum(1) - 1
            vectors = hidden[:, 0] if self.pooling == "cls" else hidden[self.torch.arange(len(rows)), last]
        if self.normalizes:
            vectors = self.torch.nn.functional.normalize(vectors, dim=-1)
        vectors.float().tolist()

    def generate(self, jobs: list[Job]) -> None:
        rows = [self.ids_of(job.prepared.prompts[0]) for job in jobs]
        for job, row in zip(jobs, rows):
            job.answer.prompt_tokens = len(row)
        ids, mask = self.pad_rows(rows, self.pad, left=not self.is_encoder_decoder)
        options = dict(jobs[0].prepared.options)
        ignores_end = options.pop("ignore_eos", False)
        config = copy.deepcopy(self.model.generation_config)
        config.update(max_length=None, max_new_tokens=max(job.prepared.limit for job in jobs), pad_token_id=self.pad, **options)
        if ignores_end:
            config.eos_token_id = None
        if config.do_sample and "top_k" not in options and self.model.generation_config.top_k is None:
            config.top_k = 0  # as the contract says; the library's own default is 50
        if (seed := jobs[0].prepared.seed) is not None:
            self.torch.manual_seed(seed)
        ends = set() if ignores_end else self.ends
        copies = config.num_return_sequences or 1
        # generate() takes no streamer beside beams: all tokens come at the end then.
        streams = (config.num_beams or 1) == 1 and any(job.prepared.is_stream for job in jobs)
        streamer = Streamer(jobs, copies, ends) if streams else None
        generated = self.model.generate(input_ids=ids, attention_mask=mask, generation_config=config, streamer=streamer)
        start = 1 if self.is_encoder_decoder else ids.shape[1]
        for number, job in enumerate(jobs):
            counts = {copy_: length_of(generated[number * copies + copy_][start:].tolist(), ends, job.prepared.limit)
                      for copy_ in range(copies)}
            if job.prepared.is_stream and streamer is None:
                job.answer.add_tokens(counts)
            job.answer.generated_tokens = sum(counts.values())


def length_of(ids: list[int], ends: set[int], limit: int) -> int:
    """With the end token."""
    return next((place + 1 for place, token in enumerate(ids[:limit]) if token in ends), min(len(ids), limit))


class Streamer:
    """Told of each step's tokens by generate()."""

    def __init__(self, jobs: list[Job], copies: int, ends: set[int]) -> None:
        self._jobs, self._copies, self._ends = jobs, copies, ends
        self._has_prompt = False

    def put(self, tokens: Any) -> None:
        if not self._has_prompt:
            self._has_prompt = True
            return
        values = tokens.reshape(-1).tolist()
        for number, job in enumerate(self._jobs):
            if not job.prepared.is_stream:
                continue
            new = {}
            for sequence in range(self._copies):
                if sequence in job.ended:
                    continue
                new[sequence] = 1
                length = job.answer.sequence_tokens.get(sequence, 0) + 1
                if values[number * self._copies + sequence] in self._ends or length >= job.prepared.limit:
                    job.ended.add(sequence)
            if not new:
                continue
            job.answer.add_tokens(new)
            if len(job.ended) == self._copies:
                job.finish()

    def end(self) -> None:
        pass


class TransformersPeer(Peer):
    name = "transformers"
    kinds = ("generate", "generate_stream", "generate_many", "encode", "encode_many")

    def __init__(self, models: dict[str, str], device: str, dtype: str, batch: int, num_threads: int | None) -> None:
        try:
            torch = importlib.import_module("torch")
            transformers = importlib.import_module("transformers")
        except ImportError as error:
            raise PlanError(f"peer transformers needs torch and transformers: {error}") from error
        transformers.logging.set_verbosity_error()
        if num_threads:
            torch.set_num_threads(num_threads)
        self._torch, self._transformers = torch, transformers
        self._folders, self._device, self._dtype, self._batch = models, device, dtype, batch
        self._models: dict[tuple[str, bool], Model] = {}
        self._wanted: set[tuple[str, bool]] = set()
        self._queue: deque[Job] = deque()
        self._changed = threading.Condition()
        self._is_closing = False
        self._worker: threading.Thread | None = None

    def prepare(self, kind: str, message: dict[str, Any]) -> Prepared:
        fields = Fields(message)
        folder = take_model(fields, self._folders)
        if not os.path.isdir(folder):  # and no name that the library would look up elsewhere
            raise PlanError(f"--model is '{folder}'; accepted: a folder, or PLAN'S_NAME=FOLDER")
        is_encode = kind.startswith("encode")
        if is_encode:
            prepared = Prepared(folder, True, False, fields.take_inputs(), truncate=fields.take("truncate") == "TRUNCATION_RIGHT")
        else:
            seed = fields.take("sampling.seed")
            prepared = Prepared(folder, False, kind == "generate_stream", [fields.take_prompt()], limit=fields.take_limit(self.name),
                                seed=None if seed is None else int(seed) & (1 << 63) - 1, options=self._options(fields, seed))
        fields.finish(self.name)
        self._wanted.add((folder, is_encode))
        return prepared

    @staticmethod
    def _options(fields: Fields, seed: Any) -> tuple[tuple[str, Any], ...]:
        options: dict[str, Any] = {}
        sampling = {theirs: value for ours, theirs in SAMPLING.items()
                    if (value := fields.take("sampling." + ours)) is not None}
        beam = {theirs: value for ours, theirs in BEAM.items() if (value := fields.take("beam." + ours)) is not None}
        if (stopping := fields.take("beam.early_stopping")) is not None:
            beam["early_stopping"] = EARLY_STOPPING[stopping]
        if sampling or seed is not None or fields.take("sampling") is not None:
            options.update(do_sample=True, num_beams=1, **sampling)
        elif beam or fields.take("beam") is not None:
            options.update(do_sample=False, **{"num_beams": 4, **beam})
        elif fields.take("greedy") is not None:
            options.update(do_sample=False, num_beams=1)
        for ours, theirs in OTHERS.items():
            if (value := fields.take(ours)) is not None:
                options[theirs] = value
        if fields.take("limits.ignore_eos"):
            options["ignore_eos"] = True
        return tuple(sorted(options.items()))

    async def open(self) -> None:
        for folder, is_encode in sorted(self._wanted):
            try:
                self._models[folder, is_encode] = Model(self._torch, self._transformers, folder, is_encode, self._device,
                                                        self._dtype)
            except (OSError, ValueError, RuntimeError) as error:
                raise PlanError(f"--model {folder}: {error}") from error
        self._worker = threading.Thread(target=self._work, name="transformers", daemon=True)
        self._worker.start()

    async def call(self, prepared: Prepared, answer: Answer) -> None:
        answer.num_items = len(prepared.prompts)
        loop = asyncio.get_running_loop()
        job = Job(prepared, answer, loop, loop.create_future())
        with self._changed:
            self._queue.append(job)
            self._changed.notify()
        await job.future

    def _next_batch(self) -> list[Job]:
        """The request that waits longest, and those that can share its batch; none in the end."""
        with self._changed:
            while True:
                waiting = [job for job in self._queue if not job.future.done()]  # the others were cancelled
                self._queue = deque(waiting)
                if self._queue or self._is_closing:
                    break
                self._changed.wait()
            batch = [job for job in self._queue if job.prepared.fits(self._queue[0].prepared)][: self._batch]
            self._queue = deque(job for job in self._queue if not any(job is taken for taken in batch))
            return batch

    def _work(self) -> None:
        self._torch.set_grad_enabled(False)
        while jobs := self._next_batch():
            try:
                model = self._models[jobs[0].prepared.folder, jobs[0].prepared.is_encode]
                if jobs[0].prepared.is_encode:
                    model.encode(jobs)
                else:
                    model.generate(jobs)
                error = None
            except Exception as fault:  # pylint: disable=broad-except
                error = fault
            for job in jobs:
                job.finish(error)

    async def close(self) -> None:
        with self._changed:
            self._is_closing = True
            self._queue.clear()
            self._changed.notify()
        if self._worker:
            await asyncio.get_running_loop().run_in_executor(None, self._worker.join, 60)

    def versions(self) -> dict[str, str]:
        return {"torch": str(self._torch.__version__), "transformers": str(self._transformers.__version__)}
