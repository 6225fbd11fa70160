"""Handing a class's submissions to the workers of a Dask cluster, and taking the judgements in.

The tests go from here to the workers directly, and judgements come back directly; through the scheduler
go the submissions (bytes, without names) and what Dask must know to share the work out. A task whose
worker is lost goes to another one, which is Dask's doing. When tests are lost with the last worker that
had them, they are sent again, and so are the submissions that waited for them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from autograder.assessing import Judged, failed
from autograder.cluster import worker
from autograder.cluster.address import Cluster
from autograder.cluster.messages import Refusal, pack_job, unpack_described, unpack_judged
from autograder.errors import StoppedError, UsageError
from autograder.intake import Intake
from autograder.sandbox.environment import SANDBOX_VARIABLE
from autograder.spec import Spec

CONNECT_SECONDS = 10.0
LOOK_SECONDS = 2.0  # between two looks at which workers are there
RETRIES = 2  # of a task that raised; a task whose worker died is tried three times more by Dask itself
SENDS = 3  # of a submission whose tests were lost
AHEAD = 4  # submissions under way for each thread of the cluster: no more are in memory here
Say = Callable[[str], None]
GOES_ON = (
    "Everything judged so far is stored. Start workers again and give the same command: it goes on where it "
    "stopped."
)


@dataclass
class Submission:
    """What was taken in of one student."""

    student: str
    taken: Intake
    seed: bytes
    sent: int = 0


def judge_on(
    cluster: Cluster, spec: Spec, submissions: Iterable[Submission], say: Say
) -> Generator[tuple[Submission, Judged], None, None]:
    """Judge these submissions on the cluster's workers; yield in the order of completion.

    `submissions` is read as far as there is room. Raises `UsageError` where the cluster cannot be used,
    `StoppedError` when it is lost on the way.
    """
    with _connected(cluster) as client:
        run = _Run(cluster, client, spec, say)
        run.prepare()
        yield from run.through(iter(submissions))


@contextmanager
def _connected(cluster: Cluster) -> Iterator[Any]:
    try:
        from distributed import Client, Security
    except ImportError as error:
        raise UsageError(
            f"--cluster needs Dask, which is not installed here ({error}): pip install 'dask[distributed]'."
        ) from None
    _quiet()
    security = None
    if cluster.encrypted:
        security = Security(
            tls_ca_file=str(cluster.ca),
            tls_client_cert=str(cluster.cert),
            tls_client_key=str(cluster.key),
            require_encryption=True,
        )
    try:
        asyncio.run(_ask_who_is_there(cluster.address, security))
        client = Client(
            cluster.address,
            timeout=CONNECT_SECONDS,
            security=security,
            direct_to_workers=True,
            set_as_default=False,
        )
    except (OSError, ValueError, RuntimeError) as error:  # a TLS error is an OSError, too
        raise UsageError(
            f"No Dask scheduler answers at {cluster.address} ({_in_a_line(error)}). Check the address and "
            "the certificates, that the scheduler runs (dask scheduler), and that no firewall lies between."
        ) from None
    try:
        yield client
    finally:
        with suppress(Exception):
            client.close(timeout=CONNECT_SECONDS)


async def _ask_who_is_there(address: str, security: Any) -> None:
    """Of something that takes the connection and says nothing, Dask's client would wait for ever."""
    from distributed.core import rpc

    options = security.get_connection_args("client") if security else {}
    async with rpc(address, connection_args=options, timeout=CONNECT_SECONDS) as there:
        await asyncio.wait_for(there.identity(n_workers=0), CONNECT_SECONDS + 1)


class _Run:
    """One spec, one connection: what is under way, and who is there to do it."""

    def __init__(self, cluster: Cluster, client: Any, spec: Spec, say: Say) -> None:
        self.cluster, self.client, self.spec, self.say = cluster, client, spec, say
        self.ours = worker.identity()
        self.sandbox = os.environ.get(SANDBOX_VARIABLE) or "auto"
        self.done: queue.SimpleQueue[Any] = queue.SimpleQueue()  # futures that ended, however
        self.flying: dict[str, tuple[Any, Submission]] = {}  # futures, by Dask's random key
        self.workers: dict[str, int] = {}  # address -> threads
        self.seen = self.looked = time.monotonic()  # when there was a worker; when that was asked
        self.tests: Any = None  # the spec, on the workers

    # ---- before the first submission

    def prepare(self) -> None:
        """Wait for a worker, compare software, and have every worker prove itself."""
        self.say("waiting for workers")
        self._wait_for_workers()
        self._compare_software()
        self.say("checking the grader itself on every worker")
        self._send_tests()
        said: dict[str, list[str]] = {}
        for address, told in self._proofs():
            said.setdefault(told, []).append(address)
        for told, addresses in said.items():
            self.say(f"sandbox: {told}, on {_counted(len(addresses), 'worker')}")

    def _compare_software(self) -> None:
        """On every worker and on the scheduler, which has to load the grader's modules, too."""
        with self._lost_is_clear():
            told = self.client.run(worker.identity, on_error="return")
        try:
            told["the scheduler"] = self.client.run_on_scheduler(worker.identity)
        except Exception as error:
            told["the scheduler"] = error
        wrong = []
        for address, theirs in told.items():
            if isinstance(theirs, BaseException):
                wrong.append(f"{address} cannot load the grader ({_in_a_line(theirs)})")
            elif other := worker.differences(theirs, self.ours):
                wrong.append(f"{address}: {other}")
        if wrong:
            raise UsageError(
                "The cluster's software is not the coordinator's, so nothing was graded. "
                f"{'. '.join(wrong)}. Install the same version of everything on all of them."
            )

    def _proofs(self) -> Iterator[tuple[str, str]]:
        """Each worker, and what it says of its sandbox. A worker that is lost meanwhile is left out."""
        proofs = {}
        for address in self.workers:
            arguments = (self.tests, self.ours, self.sandbox)
            future = self.client.submit(worker.prove, *arguments, workers=[address], pure=False)
            proofs[future.key] = future, address
            future.add_done_callback(self.done.put)
        refused = []
        while proofs:
            ended = self._next_done()
            future, address = proofs.pop(ended.key, (None, "")) if ended else (None, "")
            for gone in [key for key, (_, address) in proofs.items() if address not in self.workers]:
                del proofs[gone]
            if future is None or future.status == "cancelled":
                continue
            try:
                yield address, unpack_described(self._answer(future))
            except Refusal as reason:
                refused.append(f"{address}: {reason}")
            except Exception as error:
                refused.append(f"{address}: {_in_a_line(error)}")
        if refused:
            raise UsageError(f"Nothing was graded: a worker cannot judge. {' '.join(refused)}")

    # ---- the class

    def through(self, submissions: Iterator[Submission]) -> Iterator[tuple[Submission, Judged]]:
        """Keep the workers busy until every submission is judged."""
        waiting = True
        while waiting or self.flying:
            while waiting and len(self.flying) < self._room():
                submission = next(submissions, None)
                if submission is None:
                    waiting = False
                else:
                    self._send(submission)
            ended = self._next_done() if self.flying else None
            if ended is not None and ended.key in self.flying:
                future, submission = self.flying.pop(ended.key)
                judged = self._landed(future, submission)
                if judged is not None:
                    yield submission, judged

    def _room(self) -> int:
        return AHEAD * max(2, sum(self.workers.values()))

    def _send(self, submission: Submission) -> None:
        submission.sent += 1
        with self._lost_is_clear(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Dask thinks a large notebook is a mistake
            job = pack_job(submission.taken, submission.seed)
            future = self.client.submit(
                worker.judge, job, self.tests, self.ours, self.sandbox, pure=False, retries=RETRIES
            )
        self.flying[future.key] = future, submission
        future.add_done_callback(self.done.put)

    def _landed(self, future: Any, submission: Submission) -> Judged | None:
        """The judgement; None where the submission had to be sent again."""
        self._check_connection()
        if future.status != "cancelled":
            try:
                return unpack_judged(self._answer(future), submission.student)
            except Refusal as reason:
                raise StoppedError(f"A worker that joined cannot judge. {reason} {GOES_ON}") from None
            except StoppedError:
                raise
            except Exception as error:
                why = f"The cluster could not judge this submission: {_in_a_line(error)}"
                if future.status == "error":
                    return failed(submission.student, self.spec, why)
        elif submission.sent == SENDS:
            return failed(submission.student, self.spec, "The cluster lost this submission again and again.")
        if self.tests.status != "finished":
            self._send_tests()
        self._send(submission)
        return None

    # ---- the cluster

    def _send_tests(self) -> None:
        """From here to the workers; the scheduler learns a name and a size."""
        spec = self.spec.to_json().encode()
        for _ in range(SENDS):
            self._wait_for_workers()
            try:
                self.tests = self.client.scatter(spec, direct=True, broadcast=True, hash=False)
                return
            except (OSError, KeyError) as error:  # a worker went just now, or cannot be reached
                why = _in_a_line(error)
                time.sleep(1)
        raise UsageError(
            f"The scheduler at {self.cluster.address} answers, but its workers cannot be reached from here "
            f"({why}). Hidden tests go to them directly, past the scheduler: give the command on a machine "
            "that can reach them, as one of the cluster's own."
        )

    def _answer(self, future: Any) -> Any:
        """The answer, from the worker that has it. Where that one is lost, from another, in its time."""
        asked = self.client.gather(future, direct=True, asynchronous=True)
        answer = asyncio.run_coroutine_threadsafe(asked, self.client.loop.asyncio_loop)
        while True:
            try:
                return answer.result(LOOK_SECONDS)
            except TimeoutError:
                if answer.done():
                    raise
                self._look()

    def _wait_for_workers(self) -> None:
        self._look()
        while not self.workers:
            time.sleep(0.1)
            self._look()

    def _next_done(self) -> Any:
        """The next future that ended, however; None now and then, after a look at the workers."""
        try:
            future = self.done.get(timeout=1)
        except queue.Empty:
            future = None
        if time.monotonic() - self.looked >= LOOK_SECONDS:
            self._look()
        return future

    def _look(self) -> None:
        """Who is there? Raises `StoppedError` when for too long nobody is."""
        self._check_connection()
        with self._lost_is_clear():
            now = dict(self.client.nthreads())
        self.looked = time.monotonic()
        lost, new = set(self.workers) - set(now), set(now) - set(self.workers)
        if lost:
            self.say(f"cluster: {_counted(len(lost), 'worker')} lost, {len(now)} left")
        elif self.workers and new:
            self.say(f"cluster: {_counted(len(new), 'worker')} joined")
        self.workers = now
        if now:
            self.seen = self.looked
        elif self.looked - self.seen >= self.cluster.patience:
            began = self.tests is not None
            raise (StoppedError if began else UsageError)(
                f"The scheduler at {self.cluster.address} has had no worker for "
                f"{self.cluster.patience:g} seconds. "
                + (GOES_ON if began else f"Start some: dask worker {self.cluster.address}")
            )

    def _check_connection(self) -> None:
        if self.client.status != "running":
            raise StoppedError(f"The connection to {self.cluster.address} is lost. {GOES_ON}")

    @contextmanager
    def _lost_is_clear(self) -> Iterator[None]:
        try:
            yield
        except (OSError, RuntimeError) as error:
            raise StoppedError(
                f"The connection to {self.cluster.address} is lost ({_in_a_line(error)}). {GOES_ON}"
            ) from None


def _quiet() -> None:
    """Dask logs with tracebacks what is said here in a sentence."""
    for name in [*logging.root.manager.loggerDict]:
        if name.partition(".")[0] in ("distributed", "tornado"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def _in_a_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
