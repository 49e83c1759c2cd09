"""A server of the contract that answers as a test says, and remembers what it was asked."""

import threading
import time
from concurrent import futures

import grpc
from google.protobuf import any_pb2

from beamline_client._protos import error_details_pb2, status_pb2
from beamline_client.v1 import inference_pb2 as pb
from beamline_client.v1 import inference_pb2_grpc, models_pb2, models_pb2_grpc


class Failure(Exception):
    """A status to answer with; details as the server gives them unless told otherwise."""

    def __init__(self, code, message="scripted", retry_s=None, details=True):
        super().__init__(message)
        self.code, self.message = code, message
        self.status = status_pb2.Status(code=code.value[0], message=message)
        self.has_details = details
        if retry_s is not None:
            info = error_details_pb2.RetryInfo()
            info.retry_delay.FromNanoseconds(int(retry_s * 1e9))
            detail = any_pb2.Any()
            detail.Pack(info)
            self.status.details.append(detail)

    def end(self, context):
        if self.has_details:
            context.set_trailing_metadata((("grpc-status-details-bin", self.status.SerializeToString()),))
        context.abort(self.code, self.message)


class Script(inference_pb2_grpc.InferenceServicer, models_pb2_grpc.ModelsServicer):
    """`outcomes`: what happens to the calls, one after the other: a Failure, or anything else for an answer. Then answers.

    Of a request of GenerateMany or EncodeMany `fail_text` decides: text of the prompt -> list of outcomes.
    """

    def __init__(self):
        self.outcomes = []
        self.fail_text = {}
        self.break_after = []  # of each stream of many: the answers after which it breaks
        self.calls = []  # (time, request or requests)
        self.metadata = []
        self.cancelled = threading.Event()  # or at its end: a stream
        self.lock = threading.Lock()

    def begin(self, request, context):
        with self.lock:
            self.calls.append((time.monotonic(), request))
            self.metadata.append(dict(context.invocation_metadata()))
            outcome = self.outcomes.pop(0) if self.outcomes else None
        if isinstance(outcome, Failure):
            outcome.end(context)
        return outcome

    def Generate(self, request, context):
        self.begin(request, context)
        return answer_to(request)

    def GenerateStream(self, request, context):
        outcome = self.begin(request, context)
        context.add_callback(self.cancelled.set)
        for number, word in enumerate(request.prompt.text.split()):
            if outcome == "break" and number == 1:
                Failure(grpc.StatusCode.UNAVAILABLE).end(context)
            if outcome == "hang" and number == 1:
                while context.is_active():
                    time.sleep(0.01)
                return
            delta = pb.SequenceDelta(text=word, ids=[number])
            yield pb.GenerateStreamResponse(deltas=[delta])
        if outcome != "no end":
            end = pb.StreamEnd(model=request.model, sequences=[pb.SequenceEnd(finish_reason=pb.FINISH_REASON_EOS)])
            yield pb.GenerateStreamResponse(end=end)

    def Encode(self, request, context):
        self.begin(request, context)
        return embeddings_of(request)

    def GenerateMany(self, requests, context):
        yield from self.many(requests, context, pb.GenerateManyResponse, answer_to, lambda request: request.prompt.text)

    def EncodeMany(self, requests, context):
        yield from self.many(requests, context, pb.EncodeManyResponse, embeddings_of, lambda request: request.inputs[0].text)

    def many(self, requests, context, envelope, answer, text_of):
        taken = []
        self.begin(taken, context)
        context.add_callback(self.cancelled.set)
        break_after = self.break_after.pop(0) if self.break_after else None
        num_answers = 0
        for request in requests:
            taken.append(request)
            if break_after is not None and num_answers == break_after:
                Failure(grpc.StatusCode.UNAVAILABLE).end(context)
            outcomes = self.fail_text.get(text_of(request))
            outcome = outcomes.pop(0) if outcomes else None
            num_answers += 1
            if isinstance(outcome, Failure):
                yield envelope(request_id=request.request_id, error=outcome.status)
            else:
                yield envelope(request_id=request.request_id, response=answer(request))

    def Classify(self, request, context):
        self.begin(request, context)
        classes = [pb.ClassScore(label=label, score=score) for label, score in (("up", 0.25), ("down", 0.75))]
        return pb.ClassifyResponse(model=request.model, classifications=[
            pb.Classification(classes=classes, num_tokens=3) for _ in request.inputs])

    def ClassifyTokens(self, request, context):
        self.begin(request, context)
        token = pb.ClassifiedToken(id=7, piece="a", index=1, begin=0, end=1, classes=[pb.ClassScore(label="B-PER", score=0.75)])
        tokens = [token] if request.aggregation == pb.AGGREGATION_NONE else []
        return pb.ClassifyTokensResponse(model=request.model, classifications=[pb.TokenClassification(
            tokens=tokens, num_tokens=3,
            entities=[] if tokens else [pb.Entity(label="PER", score=0.5, text=text, begin=0, end=len(text))]) for text in request.inputs])

    def FillMask(self, request, context):
        self.begin(request, context)
        return pb.FillMaskResponse(model=request.model, texts=[pb.FilledText(num_tokens=3, masks=[pb.FilledMask(
            index=1, begin=0, end=1, fills=[pb.MaskFill(id=7, text="X", score=0.75, sequence=text + "X")])]) for text in request.inputs])

    def Rerank(self, request, context):
        self.begin(request, context)
        return pb.RerankResponse(model=request.model, request_id=request.request_id, documents=[
            pb.RankedDocument(index=i, score=len(text), num_tokens=4) for i, text in enumerate(request.documents)])

    def Tokenize(self, request, context):
        self.begin(request, context)
        return pb.TokenizeResponse(model=request.model, tokens=[pb.Token(id=7, piece=request.text)])

    def ListModels(self, request, context):
        self.begin(request, context)
        model = models_pb2.Model(name="m", state=models_pb2.MODEL_STATE_READY, task=models_pb2.TASK_ENCODE)
        return models_pb2.ListModelsResponse(models=[model])

    def LoadModel(self, request, context):
        self.begin(request, context)
        return models_pb2.Model(name=request.name)


def answer_to(request):
    """The prompt, in capitals."""
    sequence = pb.Sequence(text=request.prompt.text.upper(), finish_reason=pb.FINISH_REASON_EOS)
    return pb.GenerateResponse(model=request.model, request_id=request.request_id, sequences=[sequence])


def embeddings_of(request):
    """Each input's length, as a vector of one number."""
    return pb.EncodeResponse(
        model=request.model, usage=pb.Usage(prompt_tokens=len(request.inputs)),
        embeddings=[pb.Embedding(values=[len(one.text)], num_vectors=1, dimensions=1, num_tokens=1) for one in request.inputs])


class Server:
    """A script behind a free port."""

    def __init__(self, max_receive_bytes=4 << 20, port=0, credentials=None):
        self.script = Script()
        self.server = grpc.server(futures.ThreadPoolExecutor(16), options=[
            ("grpc.max_receive_message_length", max_receive_bytes), ("grpc.so_reuseport", 0)])
        inference_pb2_grpc.add_InferenceServicer_to_server(self.script, self.server)
        models_pb2_grpc.add_ModelsServicer_to_server(self.script, self.server)
        address = f"127.0.0.1:{port}"
        self.port = (self.server.add_secure_port(address, credentials) if credentials else self.server.add_insecure_port(address))
        self.address = f"127.0.0.1:{self.port}"
        self.server.start()

    def stop(self):
        self.script.cancelled.set()
        self.server.stop(None).wait()
