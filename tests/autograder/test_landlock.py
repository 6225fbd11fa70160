"""Landlock alone, without any mount or namespace: what it forbids to the process that puts it up."""

import json
import os
import subprocess
import sys

import pytest

from autograder.sandbox import landlock

SCRIPT = """
import ctypes, json, os, socket, sys
from autograder.sandbox import landlock
readable, changeable = sys.argv[1:3]
ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)
version = landlock.restrict([readable], [changeable], ["/dev/null"])
def attempt(act):
    try:
        act()
    except OSError:
        return False
    return True
print(json.dumps([version, {name: attempt(eval("lambda: " + code)) for name, code in json.loads(sys.argv[3]).items()}]))
"""


@pytest.fixture
def fenced(tmp_path):
    if landlock.version() == 0:
        pytest.skip("this kernel has no Landlock")
    for name in ("read", "change", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("x")
    server = socket_listener()

    def run(**attempts):
        texts = {
            name: code.format(folder=tmp_path, port=server.getsockname()[1])
            for name, code in attempts.items()
        }
        command = [
            sys.executable,
            "-c",
            SCRIPT,
            str(tmp_path / "read"),
            str(tmp_path / "change"),
            json.dumps(texts),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/")
        return json.loads(done.stdout)

    yield run
    server.close()


def socket_listener():
    import socket

    return socket.create_server(("127.0.0.1", 0))


def test_files_are_read_written_and_made_where_it_was_allowed_and_nowhere_else(fenced):
    _, seen = fenced(
        read="open('{folder}/read/file').read()",
        list="os.listdir('{folder}/read')",
        write_readable="open('{folder}/read/file', 'w')",
        make_readable="os.mkdir('{folder}/read/new')",
        write="open('{folder}/change/new', 'w').write('y')",
        rename="os.rename('{folder}/change/new', '{folder}/change/newer')",
        remove="os.unlink('{folder}/change/newer')",
        make_fifo="os.mkfifo('{folder}/change/pipe')",
        other="open('{folder}/other/file')",
        list_other="os.listdir('{folder}/other')",
        device="open('/dev/null', 'w').write('z')",
        link_out="os.rename('{folder}/change/file', '{folder}/other/file2')",
    )
    assert {name for name, worked in seen.items() if worked} == {
        "read",
        "list",
        "write",
        "rename",
        "remove",
        "device",
    }


def test_no_program_starts(fenced):
    _, seen = fenced(program="os.execv('/bin/true', ['true'])")
    assert seen == {"program": False}


def test_tcp_connects_nowhere(fenced):
    version, seen = fenced(
        connect="socket.create_connection(('127.0.0.1', {port}), 5)",
        bind="socket.create_server(('127.0.0.1', 0))",
    )
    if version < 4:
        pytest.skip(f"version {version} of Landlock leaves TCP alone")
    assert seen == {"connect": False, "bind": False}


def test_a_process_outside_gets_no_signal(fenced):
    version, seen = fenced(signal=f"os.kill({os.getpid()}, 0)")
    if version < 6:
        pytest.skip(f"version {version} of Landlock leaves signals alone")
    assert seen == {"signal": False}
