"""Grading on a Dask cluster: real processes of its own on this machine, and the same grades as without."""

from __future__ import annotations

import http.server
import json
import os
import pickle
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from classroom import (
    AUDIT,
    KILL,
    SLOW,
    Done,
    answer,
    autograder,
    descendants,
    everything,
    hand_in,
    is_alive,
    make_class,
    progress,
    times_written,
)
from nbformat import NotebookNode

from autograder.assessing import failed
from autograder.cluster import coordinator, messages, worker
from autograder.course import Course
from autograder.intake import Intake
from autograder.spec import Spec

distributed = pytest.importorskip(
    "distributed", reason="Dask is not installed: pip install 'dask[distributed]'"
)

CANARY = b"expected_canary_4711"  # in a hidden test of the unit
QUIET = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}


class Cluster:
    """A scheduler and workers, each a process with one thread, on this machine's own address."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder, self.options = folder, options
        self.file = folder / "scheduler.json"
        folder.mkdir()
        self.scheduler = self._start("scheduler", "--port", "0", "--scheduler-file", str(self.file))
        self.workers: list[subprocess.Popen[bytes]] = []
        wait_until(lambda: self.file.is_file() and self.file.read_text().endswith("}"))
        self.address = json.loads(self.file.read_text())["address"]

    def add(self, *options: str, **environment: str) -> subprocess.Popen[bytes]:
        """Without a nanny, which would start a killed worker again."""
        where = str(self.folder / f"worker-{len(self.workers)}")
        command = ["worker", self.address, "--no-nanny", "--nthreads", "1", "--memory-limit", "0"]
        self.workers.append(self._start(*command, "--local-directory", where, *options, **environment))
        return self.workers[-1]

    def _start(self, kind: str, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", *arguments, *self.options]
        return subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--no-dashboard"],
            stderr=(self.folder / f"{kind}.log").open("ab"),
            env={**os.environ, **environment},
            **QUIET,
        )

    def stop(self) -> None:
        for process in [*self.workers, self.scheduler]:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two workers for tests that kill nobody."""
    started = Cluster(tmp_path_factory.mktemp("cluster") / "dask")
    started.add()
    started.add()
    yield started
    started.stop()


@pytest.fixture
def make_cluster(tmp_path: Path) -> Iterator[Callable[..., Cluster]]:
    made: list[Cluster] = []

    def make(*options: str, workers: int = 1) -> Cluster:
        made.append(Cluster(tmp_path / f"dask-{len(made)}", *options))
        for _ in range(workers):
            made[-1].add()
        return made[-1]

    yield make
    for one in made:
        one.stop()


def wait_until(holds: Callable[[], Any], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def command(course: Course, *options: str) -> list[str]:
    return [sys.executable, "-m", "autograder.cli", "grade", "tiny", "--course", str(course.root), *options]


def grade(course: Course, *options: str) -> Done:
    return autograder(*command(course, *options)[3:])


def pages(course: Course) -> dict[str, bytes]:
    """What students and instructor read, byte for byte: feedback, autograded notebooks, the CSV. Its rows
    are in the gradebook's order, which is that of completion."""
    files = [*course.feedback.rglob("*.html"), *course.autograded.rglob("*.ipynb")]
    found = {str(path.relative_to(course.root)): path.read_bytes() for path in files}
    return {
        **found,
        "grades.csv": b"".join(sorted((course.root / "grades.csv").read_bytes().splitlines(True))),
    }


def twin(course: Course, tmp_path: Path) -> Course:
    """The same course, graded on this machine alone."""
    shutil.copytree(course.root, tmp_path / "twin")
    found = Course.open(tmp_path / "twin")
    done = grade(found, "--jobs", "1")
    assert done.returncode in (0, 1), done.stderr
    return found


def assert_same(course: Course, other: Course) -> None:
    assert everything(course) == everything(other)
    ours, theirs = pages(course), pages(other)
    assert ours.keys() == theirs.keys()
    assert len(ours) > len(course.students("tiny"))
    assert [name for name in ours if ours[name] != theirs[name]] == []


def audited(course: Course) -> None:
    with closing(sqlite3.connect(course.gradebook)) as db:
        db.executescript(AUDIT)


# ---- workers come and go


def test_a_worker_that_is_killed_midway_changes_nothing(
    course: Course, right: NotebookNode, make_cluster: Callable[..., Cluster], tmp_path: Path
):
    make_class(course, right, 20)
    alone = twin(course, tmp_path)
    audited(course)
    cluster = make_cluster(workers=2)
    run = subprocess.Popen(
        command(course, "--cluster", cluster.address),
        stderr=subprocess.PIPE,
        text=True,
        stdout=subprocess.DEVNULL,
    )
    wait_until(lambda: progress(course) >= 4)
    held = descendants(cluster.workers[0].pid)
    assert any("autograder.runner" in line for line in held.values())
    cluster.workers[0].send_signal(KILL)
    _, said = run.communicate(timeout=120)
    assert run.returncode == 1, "one cannot be read"
    assert "on 2 workers" in said
    assert "cluster: 1 worker lost, 1 left" in said
    assert_same(course, alone)
    assert times_written(course) == dict.fromkeys(course.students("tiny"), 1)
    wait_until(lambda: not any(map(is_alive, held)), 12)  # no runner outlives its worker


def test_when_every_worker_is_killed_the_run_stops_clearly_and_the_same_command_goes_on(
    course: Course, right: NotebookNode, make_cluster: Callable[..., Cluster], tmp_path: Path
):
    kinds = [("right", SLOW), ("whole", "")]
    for number in range(8):
        hand_in(course, f"student-{number}", answer(right, *kinds[number % 2]))
    alone = twin(course, tmp_path)
    audited(course)
    cluster = make_cluster(workers=2)
    order = command(course, "--cluster", cluster.address, "--cluster-wait", "2")
    run = subprocess.Popen(order, stderr=subprocess.PIPE, text=True, stdout=subprocess.DEVNULL)
    wait_until(lambda: progress(course) >= 2)
    for process in cluster.workers:
        process.send_signal(KILL)
    _, said = run.communicate(timeout=120)
    assert run.returncode == 1
    assert "has had no worker for 2 seconds. Everything judged so far is stored." in said
    assert "Traceback" not in said
    assert 2 <= progress(course) < 8
    cluster.add()
    done = grade(course, "--cluster", cluster.address)
    assert done.returncode == 0, done.stderr
    assert_same(course, alone)
    assert times_written(course) == dict.fromkeys(course.students("tiny"), 1)


def test_workers_that_come_back_in_time_get_the_tests_again(
    course: Course, right: NotebookNode, make_cluster: Callable[..., Cluster]
):
    """The tests were only in the workers' memory; the scheduler never had them."""
    for number in range(4):
        hand_in(course, f"student-{number}", answer(right, "right", SLOW))
    cluster = make_cluster()
    run = subprocess.Popen(command(course, "--cluster", cluster.address), stdout=subprocess.PIPE, text=True)
    wait_until(lambda: progress(course) >= 1)
    cluster.workers[0].send_signal(KILL)
    cluster.add()
    said, _ = run.communicate(timeout=120)
    assert run.returncode == 0, said
    assert said.count("full marks") == 4


def test_a_scheduler_that_is_killed_stops_the_run_clearly(
    course: Course, right: NotebookNode, make_cluster: Callable[..., Cluster]
):
    for number in range(6):
        hand_in(course, f"student-{number}", answer(right, "right", SLOW))
    cluster = make_cluster()
    run = subprocess.Popen(
        command(course, "--cluster", cluster.address),
        stderr=subprocess.PIPE,
        text=True,
        stdout=subprocess.DEVNULL,
    )
    wait_until(lambda: progress(course) >= 1)
    cluster.scheduler.send_signal(KILL)
    _, said = run.communicate(timeout=120)
    assert run.returncode == 1
    assert f"The connection to {cluster.address} is lost" in said
    assert "goes on where it stopped" in said
    assert "Traceback" not in said


def test_ctrl_c_stops_and_the_same_command_goes_on(course: Course, right: NotebookNode, cluster: Cluster):
    for number in range(6):
        hand_in(course, f"student-{number}", answer(right, "right", SLOW))
    order = command(course, "--cluster", cluster.address)
    run = subprocess.Popen(order, stderr=subprocess.PIPE, text=True, stdout=subprocess.DEVNULL)
    wait_until(lambda: progress(course) >= 2)
    run.send_signal(signal.SIGINT)
    _, said = run.communicate(timeout=60)
    assert run.returncode == 1
    assert re.search(r"Stopped\. \d of 6 submissions are graded and stored", said), said
    assert progress(course) < 6
    done = grade(course, "--cluster", cluster.address)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("full marks") == 6


def test_what_the_cluster_cannot_judge_is_left_to_a_person_and_tried_again(
    one: Course, make_cluster: Callable[..., Cluster], tmp_path: Path
):
    (tmp_path / "broken.py").write_text(
        "import autograder.cluster.worker as worker\n"
        "def assess(*arguments): raise RuntimeError('a disk that fails')\nworker.assess = assess\n"
    )
    cluster = make_cluster(workers=0)
    broken = cluster.add("--preload", str(tmp_path / "broken.py"))
    done = grade(one, "--cluster", cluster.address)
    assert done.returncode == 1
    assert "needs review" in done.stdout
    assert {score for score, *_ in everything(one).values()} == {None}
    broken.send_signal(KILL)
    cluster.add()
    assert "full marks" in grade(one, "--cluster", cluster.address).stdout


# ---- hidden tests, names, pickles


def test_the_scheduler_sees_no_hidden_test_and_no_name(course: Course, right: NotebookNode, cluster: Cluster):
    hand_in(course, "ada-lovelace-1815", answer(right, "whole", "mark = 'submitted_mark_1843'"))
    assert grade(course, "--cluster", cluster.address).returncode == 0
    assert found_in(cluster.workers[0].pid, CANARY) or found_in(cluster.workers[1].pid, CANARY), "it is there"
    assert found_in(cluster.scheduler.pid, b"submitted_mark_1843"), "what passes through is found"
    assert not found_in(cluster.scheduler.pid, CANARY)
    for process in [cluster.scheduler, *cluster.workers]:
        assert not found_in(process.pid, b"ada-lovelace-1815")


def found_in(process: int, wanted: bytes) -> bool:
    """Whether these bytes are anywhere in the memory of a process."""
    with open(f"/proc/{process}/mem", "rb", 0) as memory:
        for line in Path(f"/proc/{process}/maps").read_text().splitlines():
            span = re.match(r"([0-9a-f]+)-([0-9a-f]+) rw", line)
            if span:
                start, end = (int(number, 16) for number in span.groups())
                try:
                    memory.seek(start)
                    if wanted in memory.read(end - start):
                        return True
                except OSError:
                    continue
    return False


class Bomb:
    """Unpickling it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def test_a_submission_that_is_a_pickle_is_never_unpickled(course: Course, cluster: Cluster, tmp_path: Path):
    bomb = pickle.dumps(Bomb(tmp_path / "unpickled"))
    hand_in(course, "eve", bomb)
    done = grade(course, "--cluster", cluster.address)
    assert "eve: " in done.stderr
    assert "unreadable" in done.stdout
    assert not (tmp_path / "unpickled").exists()
    pickle.loads(bomb)
    assert (tmp_path / "unpickled").exists(), "it would have been seen"


def test_what_travels_is_bytes_and_comes_back_as_it_was(course: Course):
    taken = Intake(b'{"cells": []}\n\x00\xff', ["a note \udcff"], "")
    job = messages.pack_job(taken, b"\x01seed")
    assert type(job) is bytes
    assert messages.unpack_job(job) == (taken, b"\x01seed")
    nothing = Intake(None, [], "It is a link.")
    assert messages.unpack_job(messages.pack_job(nothing, b""))[0] == nothing
    judged = failed("", course.spec("tiny"), "why \udcff")
    back = messages.unpack_judged(messages.pack_judged(judged), "ada")
    assert back.to_json() == failed("ada", course.spec("tiny"), "why \udcff").to_json()
    with pytest.raises(TypeError, match="expected bytes from a worker, got Judged"):
        messages.unpack_judged(judged, "ada")
    with pytest.raises(messages.Refusal, match="no sandbox here"):
        messages.unpack_judged(messages.pack_refusal("no sandbox here"), "ada")


def test_a_runner_without_work_ends(tiny: Any):
    pool, spec = worker.Pool(), tiny.spec.to_json().encode()
    with pool.runner(spec, worker.identity(), "zygote") as runner:
        process = runner.process
        assert process is not None
        pool.close_idle(0)
        assert process.poll() is None, "it has work"
    pool.close_idle(1000)
    with pool.runner(spec, worker.identity(), "zygote") as again:
        assert again is runner
    pool.close_idle(0)
    assert process.poll() is not None


# ---- a cluster that must not be used


def refused(done: Done, *said: str) -> None:
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    for text in said:
        assert text in done.stderr


@pytest.fixture
def one(course: Course, right: NotebookNode) -> Course:
    """A course with one submission, of which nothing may be graded."""
    hand_in(course, "ada", answer(right))
    return course


def untouched(course: Course) -> bool:
    return progress(course) == 0 and not course.feedback.exists()


@pytest.mark.parametrize(
    "address", ["127.0.0.1:8786", "http://127.0.0.1:8786", "tcp://host", "tcp://host:0", ""]
)
def test_a_wrong_address_says_what_one_looks_like(one: Course, address: str):
    refused(grade(one, "--cluster", address), "expected tcp://HOST:PORT or tls://HOST:PORT")


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "tcp://no-such-host.invalid:8786"])
def test_where_nobody_answers_it_says_so(one: Course, address: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(coordinator, "CONNECT_SECONDS", 1)
    refused(grade(one, "--cluster", address), f"No Dask scheduler answers at {address}", "dask scheduler")
    assert untouched(one)


def test_what_answers_and_is_no_scheduler_is_refused(one: Course, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(coordinator, "CONNECT_SECONDS", 1)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        done = grade(one, "--cluster", f"tcp://127.0.0.1:{server.server_address[1]}")
        server.shutdown()
    refused(done, "No Dask scheduler answers at")


def test_options_that_do_not_go_together_are_refused(one: Course, tmp_path: Path):
    there = ("--cluster", "tcp://127.0.0.1:8786")
    refused(grade(one, *there, "--jobs", "2"), "--jobs is for this machine")
    refused(grade(one, *there, "--unsafe"), "--unsafe is not for a cluster")
    refused(grade(one, *there, "--tls-ca", "ca.pem"), "is not encrypted")
    refused(grade(one, "--tls-ca", "ca.pem"), "belong to --cluster")
    tls = ("--cluster", "tls://127.0.0.1:8786", "--tls-ca", "ca.pem")
    refused(grade(one, *tls), "--tls-cert is missing")
    files = ("--tls-cert", str(tmp_path / "no.pem"), "--tls-key", str(tmp_path / "no.pem"))
    refused(grade(one, *tls, *files), "--tls-ca ca.pem: there is no such file")


def test_without_dask_it_says_what_to_install(one: Course, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    done = grade(one, "--cluster", "tcp://127.0.0.1:8786")
    refused(done, "--cluster needs Dask", "pip install 'dask[distributed]'")


def test_a_cluster_without_workers_is_waited_for_and_then_refused(
    one: Course, make_cluster: Callable[..., Cluster]
):
    cluster = make_cluster(workers=0)
    done = grade(one, "--cluster", cluster.address, "--cluster-wait", "1")
    refused(done, "has had no worker for 1 seconds", f"dask worker {cluster.address}")
    assert untouched(one)


def test_a_worker_with_other_software_is_refused_by_name(
    one: Course, make_cluster: Callable[..., Cluster], tmp_path: Path
):
    (tmp_path / "other.py").write_text(
        "import autograder.cluster.worker as worker\n"
        "worker.environment = lambda: ('3.10.0', 'x86_64', '1.20.0')\nworker.grader_digest = lambda: 'old'\n"
    )
    cluster = make_cluster()
    cluster.add("--preload", str(tmp_path / "other.py"))
    wait_until(lambda: (cluster.folder / "worker.log").read_text().count("Registered to") == 2)
    done = grade(one, "--cluster", cluster.address)
    refused(done, "software is not the coordinator's", "Python is 3.10.0", "NumPy is 1.20.0", "autograder is")
    assert done.stderr.count("tcp://127.0.0.1:") == 1
    assert untouched(one)


def test_a_worker_without_a_sandbox_refuses(one: Course, make_cluster: Callable[..., Cluster]):
    cluster = make_cluster(workers=0)
    cluster.add(PATH="/nonexistent")
    done = grade(one, "--cluster", cluster.address, "--sandbox", "bwrap")
    refused(done, "a worker cannot judge", "tcp://127.0.0.1:", "bubblewrap", "is not installed")
    assert untouched(one)


def test_each_worker_proves_itself_before_it_judges(one: Course, cluster: Cluster):
    """A reference solution that is wrong there grades nobody."""
    one.write_spec(Spec.from_json(one.spec("tiny").to_json().replace("number / 2", "number / 3")))
    done = grade(one, "--cluster", cluster.address)
    refused(done, "The reference solution of tiny should get every point", "half of an even number")
    assert untouched(one)


def test_workers_that_cannot_be_reached_from_here_are_a_clear_error(
    one: Course, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
):
    def scatter(*_: object, **__: object) -> None:
        raise OSError("Timed out trying to connect to tcp://10.0.0.7:40001")

    monkeypatch.setattr(distributed.Client, "scatter", scatter)
    done = grade(one, "--cluster", cluster.address)
    refused(done, "its workers cannot be reached from here", "10.0.0.7", "past the scheduler")
    assert untouched(one)


# ---- TLS


def test_over_tls_with_an_authority_of_ones_own(
    one: Course, make_cluster: Callable[..., Cluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    certificates(tmp_path)
    ca, cert, key = (str(tmp_path / name) for name in ("ca.pem", "cert.pem", "key.pem"))
    tls = ("--tls-ca-file", ca, "--tls-cert", cert, "--tls-key", key)
    cluster = make_cluster("--protocol", "tls", *tls)
    assert cluster.address.startswith("tls://")
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    certificates(stranger)
    wrong = ("--tls-ca", ca, "--tls-cert", str(stranger / "cert.pem"), "--tls-key", str(stranger / "key.pem"))
    monkeypatch.setattr(coordinator, "CONNECT_SECONDS", 3)
    refused(grade(one, "--cluster", cluster.address, *wrong), "No Dask scheduler answers", "certificates")
    plain = cluster.address.replace("tls://", "tcp://")
    refused(grade(one, "--cluster", plain), "No Dask scheduler answers")
    assert untouched(one)
    done = grade(one, "--cluster", cluster.address, "--tls-ca", ca, "--tls-cert", cert, "--tls-key", key)
    assert done.returncode == 0, done.stderr
    assert "full marks" in done.stdout
    assert "not encrypted" not in done.stderr


def certificates(folder: Path) -> None:
    """An authority, and one certificate that it signed: the commands of the guide."""
    for order in (
        "req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=course -keyout ca-key.pem -out ca.pem",
        "req -newkey rsa:2048 -nodes -subj /CN=grader -keyout key.pem -out request.pem",
        "x509 -req -days 30 -in request.pem -CA ca.pem -CAkey ca-key.pem -CAcreateserial -out cert.pem",
    ):
        subprocess.run(["openssl", *order.split()], cwd=folder, check=True, capture_output=True)
