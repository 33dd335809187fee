"""Starts an Orrery server for tests and scripts.

    with orrery.start() as server:
        client = CosmosClient(server.endpoint, server.key)
"""

from __future__ import annotations

import base64
import json
import os
import queue
import secrets
import shutil
import subprocess
import sys
import sysconfig
import threading
from typing import Sequence

__all__ = ["Orrery", "OrreryError", "find_program", "start"]

# Starting takes well under a second; a machine that is busy compiling may need longer.
START_SECONDS_MAX = 30.0
STOP_SECONDS_MAX = 15.0


class OrreryError(RuntimeError):
    """The server cannot be started; the message says why."""


def find_program() -> str:
    """The path of the program: `ORRERY_BINARY`, else the one installed with this package, else that of PATH."""
    name = "orrery.exe" if os.name == "nt" else "orrery"
    named = os.environ.get("ORRERY_BINARY")
    if named:
        if not os.path.isfile(named):
            raise OrreryError(f"ORRERY_BINARY is '{named}', and there is no such file")
        return named
    # Beside the interpreter, in the user's scheme, or under a --target folder.
    folders = [
        sysconfig.get_path("scripts"),
        sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user"))
        if sys.version_info >= (3, 10)
        else None,
        os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bin"),
    ]
    for folder in folders:
        if folder and os.path.isfile(os.path.join(folder, name)):
            return os.path.join(folder, name)
    found = shutil.which(name)
    if found:
        return found
    raise OrreryError("the program 'orrery' is not installed; install the package again, or set ORRERY_BINARY")


class Orrery:
    """A running server."""

    def __init__(self, process: subprocess.Popen, endpoint: str, key: str) -> None:
        self._process = process
        self.endpoint = endpoint
        self.key = key

    @property
    def port(self) -> int:
        return int(self.endpoint.rstrip("/").rsplit(":", 1)[1])

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def connection_string(self) -> str:
        return f"AccountEndpoint={self.endpoint};AccountKey={self.key};"

    def stop(self) -> None:
        """Stops the server, and waits until it has ended."""
        process = self._process
        if process.stdin and not process.stdin.closed:
            # It was started to stop at the end of its input.
            process.stdin.close()
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout:
            process.stdout.close()

    def __enter__(self) -> Orrery:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()


def start(data: str | None = None, port: int = 0, arguments: Sequence[str] = ()) -> Orrery:
    """Starts a server on this machine, in memory unless a data folder is named, on a free port unless one is
    named. It ends with this process, however that ends."""
    key = base64.b64encode(secrets.token_bytes(64)).decode()
    command = [find_program(), "serve", "--stop-at-eof", "--listen", f"127.0.0.1:{port}"]
    command += ["--log-format", "json", "--log", "error"]
    command += ["--data", os.fspath(data)] if data else ["--memory"]
    command += list(arguments)
    # Settings that this machine has for its own server are not meant for this one.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ORRERY_")}
    environment["ORRERY_KEY"] = key
    try:
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except OSError as error:
        raise OrreryError(f"{command[0]} cannot be started: {error.strerror}") from None
    lines: queue.Queue[bytes] = queue.Queue()
    said: list[bytes] = []
    threading.Thread(target=lambda: lines.put(process.stdout.readline()), daemon=True).start()
    # Nobody else reads its log, and a full pipe would stop it.
    log = threading.Thread(target=lambda: said.extend(process.stderr), daemon=True)
    log.start()
    try:
        line = lines.get(timeout=START_SECONDS_MAX)
    except queue.Empty:
        process.kill()
        process.wait()
        raise OrreryError(f"the server was not ready after {START_SECONDS_MAX:.0f} s") from None
    if not line:
        process.wait()
        log.join(1)
        reason = b"".join(said).decode(errors="replace").strip() or f"exit code {process.returncode}"
        raise OrreryError(f"the server did not start: {reason}")
    endpoints = json.loads(line)["endpoints"]
    plain = [endpoint for endpoint in endpoints if endpoint.startswith("http:")]
    return Orrery(process, (plain or endpoints)[0], key)
