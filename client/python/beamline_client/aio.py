"""The clients for asyncio: what beamline_client.client has, awaited. A client belongs to the event loop of its first call."""

from __future__ import annotations

import asyncio
import itertools
from typing import (
    TYPE_CHECKING, Any, AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable, Literal, Sequence, TypeVar, Union,
    overload,
)

import grpc
import grpc.aio

from beamline_client import _methods, requests, results, token_results
from beamline_client._async_many import ManyCalls
from beamline_client._arguments import check_several, takes
from beamline_client._base import ClientBase, PromptOrRequest, as_it_is, batches
from beamline_client._methods import Method, RequestT, ResponseT
from beamline_client._protos import health_pb2
from beamline_client.errors import BeamlineError, CancelledError, DataLossError, NotFoundError, UnavailableError, from_call
from beamline_client.options import (
    ClassifyInput, ClassifyOptions, ClassifyTokensOptions, EncodeOptions, FillMaskOptions, GenerateOptions, ModelSettings, Prompt,
)
from beamline_client.retry import Attempts, Deadline
from beamline_client.v1 import inference_pb2 as pb
from beamline_client.v1 import models_pb2

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

_T = TypeVar("_T")
Source = Union[Iterable[_T], AsyncIterable[_T]]


class AsyncGenerationStream(AsyncIterator[results.Delta]):
    """An answer as it is written: iterate over its deltas, then await its ``result``.

    Leaving an ``async with`` block, ``aclose``, and cancelling the task that iterates end the call on the server too. After
    ``cancel`` whoever iterates gets a beamline_client.CancelledError.
    """

    def __init__(self, open_stream: Callable[..., Any], attempts: Attempts, deadline: Deadline) -> None:
        self._open_stream = open_stream
        self._attempts = attempts
        self._deadline = deadline
        self._pending: list[results.Delta] = []
        self._deltas: list[results.Delta] = []
        self._end: pb.StreamEnd | None = None
        self._is_over = False
        self._cancelled = asyncio.Event()
        self._call = open_stream(timeout=deadline.remaining())

    async def __anext__(self) -> results.Delta:
        while not self._pending and not self._is_over:
            self._take(await self._next_message())
        if not self._pending:
            raise StopAsyncIteration
        delta = self._pending.pop(0)
        self._deltas.append(delta)
        return delta

    async def result(self) -> results.Generation:
        """The whole answer, after the rest of it has come."""
        async for _ in self:
            pass
        if self._end is None:
            raise RuntimeError("the stream was closed, or had failed, before its end")
        return results.generation_of(self._deltas, self._end)

    def cancel(self) -> None:
        """Ends the call."""
        self._cancelled.set()
        self._call.cancel()

    async def aclose(self) -> None:
        """Ends the call and the iteration."""
        self._is_over = True
        self.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _take(self, message: pb.GenerateStreamResponse | None) -> None:
        if message is None:
            self._is_over = True
            if self._end is None:
                raise DataLossError("the stream ended without its last message")
            return
        self._pending += map(results.delta, message.deltas)
        if message.HasField("end"):
            self._end = message.end

    async def _next_message(self) -> pb.GenerateStreamResponse | None:
        """None at the end of the stream. A call is made again only while nothing of it has come."""
        has_begun = bool(self._deltas or self._pending or self._end)
        while True:
            try:
                message = await self._call.read()
                return None if message is grpc.aio.EOF else message
            except asyncio.CancelledError:
                # Of this task, which goes on to its end, or of the call, which grpc.aio tells in the same way.
                self._is_over = True
                if self._cancelled.is_set():
                    raise CancelledError("the call was cancelled") from None
                self._call.cancel()
                raise
            except grpc.RpcError as call_error:
                error = from_call(call_error)
            wait = None if has_begun or self._cancelled.is_set() else self._attempts.wait_after(error)
            if wait is None:
                self._is_over = True
                raise error
            try:
                await asyncio.wait_for(self._cancelled.wait(), wait)
            except asyncio.TimeoutError:
                self._call = self._open_stream(timeout=self._deadline.remaining())
            else:
                self._is_over = True
                raise CancelledError("the call was cancelled")


class _AsyncClient(ClientBase):
    async def close(self) -> None:
        """Ends the connection and what still runs over it."""
        if self._channel is not None:
            await self._channel.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @takes()
    async def list_models(self, *, timeout: float | None = None) -> list[results.ModelInfo]:
        """What is served: every version of every model in every state."""
        answer = await self._call(_methods.LIST_MODELS, models_pb2.ListModelsRequest(), timeout)
        return [results.model_info(model) for model in answer.models]

    @takes()
    async def get_model(self, name: str, *, timeout: float | None = None) -> results.ModelInfo:
        """A model by "NAME" or "NAME@VERSION". NotFoundError when there is none."""
        return results.model_info(await self._call(_methods.GET_MODEL, requests.get_model_request(name), timeout))

    def _open_channel(self) -> Any:
        if self._credentials is not None:
            return grpc.aio.secure_channel(self._address, self._credentials, self._channel_options)
        return grpc.aio.insecure_channel(self._address, self._channel_options)

    async def _call(self, method: Method[RequestT, ResponseT], request: RequestT, timeout: float | None) -> ResponseT:
        call = self._on_channel(method)
        deadline = self._deadline(timeout)
        attempts = Attempts(self._retry, deadline)
        while True:
            try:
                answer: ResponseT = await call(request, timeout=deadline.remaining(), metadata=self._metadata)
                return answer
            except grpc.RpcError as call_error:
                error = from_call(call_error)
            wait = attempts.wait_after(error)
            if wait is None:
                raise error
            await asyncio.sleep(wait)


class AsyncClient(_AsyncClient):
    """Calls a Beamline server.

        async with AsyncClient("localhost:50051") as client:
            print((await client.generate("translate-en-de", "Hello", beam=4)).text)

    Every call takes ``timeout``, in seconds, retries included; ``math.inf``: no limit, whatever the client's own. Errors are
    those of beamline_client.errors. Cancelling a task ends its call on the server too.
    """

    @takes()
    async def health(self, model: str = "", *, timeout: float | None = None) -> bool:
        """Whether a model, or the server as a whole, can answer. NotFoundError when there is no such model."""
        answer = await self._call(_methods.HEALTH, requests.health_request(model), timeout)
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)

    @takes()
    async def wait_until_healthy(self, model: str = "", *, timeout: float | None = None) -> None:
        """Returns when ``health`` is True: also waits for a server that is not there yet, and for a model that is not loaded
        yet. Raises what stood in the way last when the timeout is over before, NotFoundError for a model, say."""
        deadline = self._deadline(timeout)
        while True:
            try:
                if await self.health(model, timeout=deadline.remaining()):
                    return
                error: BeamlineError = UnavailableError(f"{model or 'the server'} is not healthy")
            except (NotFoundError, UnavailableError) as not_yet:
                error = not_yet
            remaining = deadline.remaining()
            if remaining is not None and remaining < 0.1:
                raise error
            await asyncio.sleep(0.1)

    @takes(GenerateOptions)
    async def generate(self, model: str, prompt: Prompt, *, timeout: float | None = None,
                       **options: Unpack[GenerateOptions]) -> results.Generation:
        """Continues a text, or translates it. Options: GenerateOptions."""
        request = requests.generate_request(model, prompt, **options)
        return results.generation(await self._call(_methods.GENERATE, request, timeout))

    @takes(GenerateOptions)
    def generate_stream(self, model: str, prompt: Prompt, *, timeout: float | None = None,
                        **options: Unpack[GenerateOptions]) -> AsyncGenerationStream:
        """The same as it is written; not awaited itself. A timeout ends it with what there is and finish reason DEADLINE."""
        request = requests.generate_request(model, prompt, **options)
        call = self._on_channel(_methods.GENERATE_STREAM)
        deadline = self._deadline(timeout)
        return AsyncGenerationStream(lambda timeout: call(request, timeout=timeout, metadata=self._metadata),
                                     Attempts(self._retry, deadline), deadline)

    @overload
    def generate_many(self, model: str, prompts: Source[PromptOrRequest], *, return_exceptions: Literal[False] = False,
                      timeout: float | None = None,
                      **options: Unpack[GenerateOptions]) -> AsyncGenerator[results.Generation, None]: ...

    @overload
    def generate_many(self, model: str, prompts: Source[PromptOrRequest], *, return_exceptions: Literal[True],
                      timeout: float | None = None,
                      **options: Unpack[GenerateOptions]) -> AsyncGenerator[results.Generation | BeamlineError, None]: ...

    @takes(GenerateOptions)
    def generate_many(self, model: str, prompts: Source[PromptOrRequest], *, return_exceptions: bool = False,
                      timeout: float | None = None,
                      **options: Unpack[GenerateOptions]) -> AsyncGenerator[Any, None]:
        """Many prompts over one stream, answered in their order as soon as they can be; the prompts, which may come from an
        async iterator, are asked for as answers are taken. A prompt may be a whole request (generate_request), which then says
        everything itself. With return_exceptions a prompt that fails has its error in its place, else the error is raised. The
        timeout is that of the whole; the client's own does not count."""
        check_several("prompts", prompts, "several texts or lists of ids")
        places = itertools.count()

        def request_of(one: PromptOrRequest) -> pb.GenerateRequest:
            place = next(places)
            if isinstance(one, pb.GenerateRequest):
                return one
            return requests.generate_request(model, requests.to_prompt(f"prompts[{place}]", one), **options)

        return self._many(_methods.GENERATE_MANY, prompts, request_of, Deadline(timeout), return_exceptions,
                          results.generation)

    @takes(EncodeOptions)
    async def encode(self, model: str, inputs: Sequence[Prompt], *, batch_size: int = 64, timeout: float | None = None,
                     **options: Unpack[EncodeOptions]) -> results.Embeddings:
        """Embeds texts; ``.numpy()`` is [number of inputs, dimensions]. More than batch_size inputs go as several requests over
        one stream, and come back as one answer in their order. Options: EncodeOptions."""
        parts = [requests.encode_request(model, part, **options) for part in batches(inputs, batch_size)]
        if len(parts) < 2:
            request = parts[0] if parts else requests.encode_request(model, [], **options)
            return results.embeddings([await self._call(_methods.ENCODE, request, timeout)])
        answers = self._many(_methods.ENCODE_MANY, parts, as_it_is, self._deadline(timeout), False, as_it_is)
        return results.embeddings([answer async for answer in answers])

    @takes(EncodeOptions)
    async def encode_many(self, model: str, inputs: Iterable[Prompt], *, batch_size: int = 64, timeout: float | None = None,
                          **options: Unpack[EncodeOptions]) -> AsyncGenerator[results.Embedding, None]:
        """Embeds texts of any number, which are asked for as embeddings are taken, in their order. The timeout is that of the
        whole; the client's own does not count."""
        answers = self._many(_methods.ENCODE_MANY, batches(inputs, batch_size),
                             lambda part: requests.encode_request(model, part, **options), Deadline(timeout), False,
                             as_it_is)
        try:
            async for answer in answers:
                for one in answer.embeddings:
                    yield results.embedding(one)
        finally:
            await answers.aclose()

    @takes(ClassifyOptions)
    async def classify(self, model: str, inputs: Sequence[ClassifyInput], *, timeout: float | None = None,
                 **options: Unpack[ClassifyOptions]) -> results.Classifications:
        """The scores of a classifier's classes for each input: a text, a pair of texts or ids. Options: ClassifyOptions."""
        request = requests.classify_request(model, inputs, **options)
        return results.classifications(await self._call(_methods.CLASSIFY, request, timeout))

    @takes(ClassifyOptions)
    async def rerank(self, model: str, query: str, documents: Sequence[str], *, timeout: float | None = None,
               **options: Unpack[ClassifyOptions]) -> results.Ranking:
        """How well each document answers a query, by a classifier with one class. Options: ClassifyOptions."""
        request = requests.rerank_request(model, query, documents, **options)
        return results.ranking(await self._call(_methods.RERANK, request, timeout))

    @takes(ClassifyTokensOptions)
    async def classify_tokens(self, model: str, inputs: Sequence[str], *, timeout: float | None = None,
                             **options: Unpack[ClassifyTokensOptions]) -> token_results.TokenClassifications:
        """The classes of the tokens of texts, or with ``aggregation`` the entities that they make. Options: ClassifyTokensOptions."""
        request = requests.classify_tokens_request(model, inputs, **options)
        return token_results.token_classifications(await self._call(_methods.CLASSIFY_TOKENS, request, timeout))

    @takes(FillMaskOptions)
    async def fill_mask(self, model: str, inputs: Sequence[str], *, timeout: float | None = None,
                       **options: Unpack[FillMaskOptions]) -> token_results.FilledTexts:
        """What is likely in place of the masked tokens of texts, which are spelled ModelInfo.mask_token. Options: FillMaskOptions."""
        request = requests.fill_mask_request(model, inputs, **options)
        return token_results.filled_texts(await self._call(_methods.FILL_MASK, request, timeout))

    @takes()
    async def score(self, model: str, prompt: Prompt, continuations: Sequence[Prompt], *, per_token: bool = False,
                    priority: int | None = None, request_id: str | None = None, cache_salt: str | None = None,
                    source_language: str | None = None, target_language: str | None = None,
                    timeout: float | None = None) -> results.Scores:
        """How likely the model finds each continuation of a prompt; of a translator: each translation."""
        request = requests.score_request(model, prompt, continuations, per_token=per_token, priority=priority,
                                         request_id=request_id, cache_salt=cache_salt,
                                         source_language=source_language, target_language=target_language)
        return results.scores(await self._call(_methods.SCORE, request, timeout))

    @takes()
    async def tokenize(self, model: str, text: str, *, add_special_tokens: bool | None = None,
                       timeout: float | None = None) -> results.Tokens:
        """The tokens of a text, with their places in it."""
        request = requests.tokenize_request(model, text, add_special_tokens)
        return results.tokens(await self._call(_methods.TOKENIZE, request, timeout))

    @takes()
    async def detokenize(self, model: str, ids: Sequence[int], *, skip_special_tokens: bool | None = None,
                         timeout: float | None = None) -> str:
        """The text of ids."""
        request = requests.detokenize_request(model, ids, skip_special_tokens)
        return (await self._call(_methods.DETOKENIZE, request, timeout)).text

    async def _many(self, method: Method[Any, Any], source: Source[Any], request_of: Callable[[Any], Any],
                    deadline: Deadline, return_exceptions: bool, convert: Callable[[Any], Any]) -> AsyncGenerator[Any, None]:
        call = self._on_channel(method)

        def open_stream(timeout: float | None) -> Any:
            return call(timeout=timeout, metadata=self._metadata)

        answers = ManyCalls(open_stream, source, request_of, self._retry, deadline, return_exceptions).results()
        try:
            async for answer in answers:
                if not isinstance(answer, BeamlineError):
                    yield convert(answer)
                elif return_exceptions:
                    yield answer
                else:
                    raise answer
        finally:
            await answers.aclose()


class AsyncAdminClient(_AsyncClient):
    """Loads and unloads models: a client of the server's admin address (its settings admin_listen and model_root)."""

    @takes(ModelSettings)
    async def load_model(self, name: str, *, folder: str | None = None, version: int | None = None,
                         timeout: float | None = None, **settings: Unpack[ModelSettings]) -> results.ModelInfo:
        """Returns when the model is ready. A load whose call ends early goes on. Settings: ModelSettings."""
        request = requests.load_model_request(name, folder, version, **settings)
        return results.model_info(await self._call(_methods.LOAD_MODEL, request, timeout))

    @takes()
    async def unload_model(self, name: str, *, version: int | None = None, grace: float | None = None,
                           timeout: float | None = None) -> results.ModelInfo:
        """Returns when the model is gone, as it was. Running requests have ``grace`` seconds; None: as the server says."""
        request = requests.unload_model_request(name, version, grace)
        return results.model_info((await self._call(_methods.UNLOAD_MODEL, request, timeout)).model)

    @takes()
    async def restart_replica(self, name: str, replica: int = 0, *, version: int | None = None, grace: float | None = None,
                              timeout: float | None = None) -> results.ModelInfo:
        """Returns when the replica is back. Its requests have ``grace`` seconds; None: as the server says."""
        request = requests.restart_replica_request(name, replica, version, grace)
        return results.model_info(await self._call(_methods.RESTART_REPLICA, request, timeout))
