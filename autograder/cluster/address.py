"""Where the cluster is, and with which certificate it is spoken to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from autograder.errors import UsageError

PATIENCE = 60.0
_ADDRESS = re.compile(r"(?P<scheme>tcp|tls)://(?P<host>\[[0-9A-Fa-f:.%]+\]|[\w.-]+):(?P<port>\d{1,5})$")
_THIS_MACHINE = ("127.", "localhost", "[::1]")


@dataclass(frozen=True)
class Cluster:
    """A Dask scheduler's address, and how long to wait for workers, in seconds. `ca`, `cert` and `key` are
    files; with tls:// all three are needed. Raises `UsageError`."""

    address: str
    patience: float = PATIENCE
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None

    def __post_init__(self) -> None:
        found = _ADDRESS.match(self.address)
        if found is None or not 0 < int(found["port"]) < 65_536:
            raise UsageError(
                f"--cluster {self.address} is no address of a Dask scheduler; expected tcp://HOST:PORT or "
                "tls://HOST:PORT, as the scheduler prints it when it starts (its usual port is 8786)."
            )
        files = {"--tls-ca": self.ca, "--tls-cert": self.cert, "--tls-key": self.key}
        if self.encrypted:
            missing = [option for option, path in files.items() if path is None]
            if missing:
                raise UsageError(
                    f"A cluster at tls:// needs --tls-ca, --tls-cert and --tls-key; {missing[0]} is missing."
                )
            for option, path in files.items():
                if path is not None and not path.is_file():
                    raise UsageError(f"{option} {path}: there is no such file.")
        elif any(files.values()):
            raise UsageError(
                "--tls-ca, --tls-cert and --tls-key are for a cluster at tls://HOST:PORT; "
                f"{self.address} is not encrypted."
            )

    @property
    def encrypted(self) -> bool:
        return self.address.startswith("tls://")

    @property
    def in_the_open(self) -> bool:
        """True where others could listen: not encrypted, and not on this machine."""
        host = self.address.partition("://")[2]
        return not self.encrypted and not host.startswith(_THIS_MACHINE)
