"""Sends the requests of a plan at their times, whatever the peer does: an open loop."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass
from typing import Any

from peer import Answer, Peer, PeerError
from plan import Plan, PlanError, PlannedRequest
from report import Record, Recorder

# How long a stop may go unnoticed.
STOP_INTERVAL_S = 0.05


@dataclass(frozen=True)
class Limits:
    timeout_s: float
    drain_s: float
    max_in_flight: int


@dataclass(frozen=True)
class Job:
    request: PlannedRequest
    prepared: list[Any]  # of each message


def prepare(plan: Plan, peer: Peer) -> list[Job]:
    """PlanError names the first request that the peer cannot be sent."""
    jobs = []
    for request in plan.requests:
        name = plan.classes[request.class_index][0]
        if request.kind not in peer.kinds:
            raise PlanError(f"class '{name}' is of kind {request.kind}; peer {peer.name} has {', '.join(peer.kinds)}")
        try:
            jobs.append(Job(request, [peer.prepare(request.kind, message) for message in request.messages]))
        except PlanError as error:
            raise PlanError(f"request {request.index} of class '{name}': {error}") from error
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise PlanError(f"request {request.index} of class '{name}' cannot be read: "
                            f"{type(error).__name__}: {error}") from error
    return jobs


class Replay:
    def __init__(self, peer: Peer, recorder: Recorder, limits: Limits) -> None:
        self._peer, self._recorder, self._limits = peer, recorder, limits
        self._loop = asyncio.get_running_loop()
        self._slots = threading.Semaphore(limits.max_in_flight)
        self._stop = threading.Event()
        self._sent_all = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_cutting = False
        self._start_ns = 0

    def stop(self) -> None:
        """Sends no more, and ends what is open."""
        self._stop.set()
        self._cut()

    def _cut(self) -> None:
        self._is_cutting = True
        for task in self._tasks:
            task.cancel()

    def _now(self) -> int:
        return time.monotonic_ns() - self._start_ns

    async def run(self, jobs: list[Job]) -> None:
        # A thread of its own keeps the times: the loop's timers are as coarse as its poll, a millisecond.
        pacer = threading.Thread(target=self._pace, args=(jobs,), name="pacer", daemon=True)
        self._start_ns = time.monotonic_ns()
        pacer.start()
        await self._sent_all.wait()
        if self._tasks and not self._stop.is_set():
            await asyncio.wait(self._tasks, timeout=self._limits.drain_s)
        self._cut()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _pace(self, jobs: list[Job]) -> None:
        try:
            for job in jobs:
                while (left_s := (job.request.time_ns - self._now()) / 1e9) > 0 and not self._stop.is_set():
                    time.sleep(min(left_s, STOP_INTERVAL_S))
                while not self._stop.is_set() and not self._slots.acquire(timeout=STOP_INTERVAL_S):
                    pass
                if self._stop.is_set():
                    return
                self._loop.call_soon_threadsafe(self._send, job)
        finally:
            self._loop.call_soon_threadsafe(self._sent_all.set)

    def _send(self, job: Job) -> None:
        record = Record(job.request.index, job.request.class_index, job.request.time_ns, sent=self._now())
        if self._stop.is_set():
            self._slots.release()
            return
        task = self._loop.create_task(self._ask(job, record))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ask(self, job: Job, record: Record) -> None:
        answers = [Answer() for _ in job.prepared]
        request = job.request
        which, limit_s = "timeout", self._limits.timeout_s
        if request.deadline_s is not None:
            which, limit_s = "deadline", request.deadline_s
        if request.cancel_after_s is not None and request.cancel_after_s < limit_s:
            which, limit_s = "cancelled", request.cancel_after_s
        try:
            await asyncio.wait_for(self._ask_all(job, answers), limit_s)
        except asyncio.TimeoutError:
            record.ending = "error" if which == "timeout" else which
            record.code = "CANCELLED" if which == "cancelled" else "DEADLINE_EXCEEDED"
            record.message = f"no end after {limit_s} s"
        except asyncio.CancelledError:
            if not self._is_cutting:
                raise
            record.ending, record.code = "stopped", "CANCELLED"
        except PeerError as error:
            record.ending, record.code, record.message = "error", error.code, error.message
        except Exception as error:  # pylint: disable=broad-except
            # A fault of ours, or of a library: it is this request's, and the run goes on.
            record.ending, record.code, record.message = "error", "INTERNAL", f"{type(error).__name__}: {error}"
        finally:
            self._slots.release()
        record.end = self._now()
        self._fill(record, answers)
        self._recorder.record(record)

    async def _ask_all(self, job: Job, answers: list[Answer]) -> None:
        calls = [self._peer.call(prepared, answer) for prepared, answer in zip(job.prepared, answers)]
        if len(calls) == 1:
            await calls[0]
            return
        tasks = [asyncio.ensure_future(call) for call in calls]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    def _fill(self, record: Record, answers: list[Answer]) -> None:
        record.num_items = sum(answer.num_items for answer in answers)
        record.prompt_tokens = sum(answer.prompt_tokens for answer in answers)
        record.cached_tokens = sum(answer.cached_tokens for answer in answers)
        record.generated_tokens = sum(max(answer.generated_tokens, sum(answer.message_tokens)) for answer in answers)
        if len(answers) > 1:
            return
        record.token_times = [at_ns - self._start_ns for at_ns in answers[0].token_times_ns]
        record.message_tokens = answers[0].message_tokens
        record.longest_sequence = max(answers[0].sequence_tokens.values(), default=0)
