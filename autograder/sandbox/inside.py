"""The program of one sandbox, for the back-ends that start one for each: load, shut, serve.

Run as `python -I -m autograder.sandbox.inside FD jail|open`. It says `loaded` on its socket and waits for
the word to go, which brings the limits. With `jail` it gives everything up then, as the zygote's jobs do;
with `open` it goes on as it is, and student code can do whatever the caller can.
"""

from __future__ import annotations

import os
import socket
import sys
import traceback
from typing import Any

from autograder.sandbox import server, shell, wire
from autograder.sandbox.environment import Limits, preload
from autograder.sandbox.layers import Layer, from_nodes


def main() -> None:
    sock = socket.socket(fileno=int(sys.argv[1]))
    channel = wire.Channel(sock)
    try:
        preload()
        students = shell.make_shell()
        channel.send(wire.pack({"id": -1, "loaded": True}, []))
        order, program = channel.receive()
        layers = from_nodes(order["layers"])
        if sys.argv[2] == "jail":
            layers += _shut(sock, order, program)
        else:
            os.chdir(os.environ["TMPDIR"])
    except BaseException:
        channel.send(wire.pack({"id": -1, "jail": traceback.format_exc()}, []))
        os._exit(1)
    server.serve_job(sock, students, layers)
    os._exit(0)


def _shut(sock: socket.socket, order: dict[str, Any], program: bytes) -> tuple[Layer, ...]:
    from autograder.sandbox import jail

    limits = Limits(**order["limits"])
    return tuple(jail.shut(order["scratch"], None, sock.fileno(), limits, order["mapped"], program))


if __name__ == "__main__":
    main()
