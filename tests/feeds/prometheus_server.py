"""A real Prometheus, and its promtool: from PATH, from a cache folder, from Debian's package, or built from its Go module.

Nothing is installed. Only the program of the package is unpacked, into the cache.
"""

import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Self

import aiohttp

from tests.controlplane.process import Guard, Program
from tests.controlplane.programs import cache_folder

MODULE = "github.com/prometheus/prometheus/cmd/"
VERSION = "v0.305.0"
"""Version 3.5.0, a long-term release, in the numbering of its Go module."""


class Unavailable(Exception):
    """There is no Prometheus on this machine. The message lists each attempt and its error."""


def find(name: str = "prometheus") -> str:
    """The path of the program `prometheus` or `promtool`. Raises Unavailable."""
    if found := shutil.which(name):
        return found
    kept = cache_folder() / "prometheus" / name
    if kept.exists():
        return str(kept)
    tried = []
    for get in (_of_debian, _of_go):
        with tempfile.TemporaryDirectory() as folder:
            try:
                program = get(Path(folder), name)
            except (OSError, subprocess.SubprocessError) as error:
                said = getattr(error, "stderr", None) or str(error)
                tried.append(f"{get.__name__.removeprefix('_of_')}: {said.strip().splitlines()[-1]}")
                continue
            kept.parent.mkdir(parents=True, exist_ok=True)
            new = kept.with_name(f"new-{name}-{os.getpid()}")
            shutil.copy(program, new)
            new.rename(kept)  # atomic, because two test runs may do this at the same time
            return str(kept)
    raise Unavailable(f"no {name} on PATH or in {kept.parent}; {'; '.join(tried)}. Install Prometheus 2.40 or newer")


def _of_debian(folder: Path, name: str) -> Path:
    try:
        _run(folder, "apt-get", "download", "prometheus")
    except subprocess.CalledProcessError:
        if os.geteuid():
            raise
        _run(folder, "apt-get", "update", "-q")  # a fresh machine may know no packages yet
        _run(folder, "apt-get", "download", "prometheus")
    [package] = folder.glob("prometheus_*.deb")
    _run(folder, "dpkg", "-x", str(package), "unpacked")
    return folder / "unpacked/usr/bin" / name


def _of_go(folder: Path, name: str) -> Path:
    """Build the Go module. `go install` refuses a module with replacements."""
    _run(folder, "go", "mod", "init", "example.com/prometheus")
    _run(folder, "go", "get", f"{MODULE}{name}@{VERSION}")
    _run(folder, "go", "build", "-o", name, MODULE + name)
    return folder / name


def _run(folder: Path, *command: str) -> None:
    subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=1800)


class Prometheus:
    """A server that scrapes one target every three seconds, so that no page is late on a busy machine, or what `config` says. It
    runs within its context, and its folder is removed at the end."""

    def __init__(self, target: str, address: str = "127.0.0.1", config: str = "", **labels: str) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="prometheus-"))
        self._guard = Guard(self._folder)
        with socket.socket() as probe:
            probe.bind((address, 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://{address}:{self.port}"
        file = self._folder / "prometheus.yml"
        file.write_text(config or _CONFIG.format(target=target, labels=labels))
        self.program = Program(
            "prometheus",
            [
                find(),
                f"--config.file={file}",
                f"--storage.tsdb.path={self._folder / 'data'}",
                f"--web.listen-address={address}:{self.port}",
                "--log.level=warn",
            ],
            self._folder,
            os.environ,
        )

    def __enter__(self) -> Self:
        self.program.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self.program.stop(patience=0)
        self._guard.release()

    async def ask(self, query: str) -> list[dict[str, Any]]:
        """The result of an instant query; empty while the server does not answer."""
        async with aiohttp.ClientSession() as http:
            try:
                async with http.get(f"{self.url}/api/v1/query", params={"query": query}) as response:
                    return list((await response.json())["data"]["result"]) if response.status == 200 else []
            except aiohttp.ClientError:
                return []


class Exporter(ThreadingHTTPServer):
    """Serves `page`, or 503 if that is None. It runs in a thread, because all tests share one Prometheus, which starts slowly."""

    class RequestHandlerClass(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = self.server.page  # type: ignore[attr-defined]
            self.send_response(503 if page is None else 200)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")  # Prometheus 3 insists
            self.end_headers()
            # With the time of each sample, as the format allows: else a scrape that a busy machine cuts off ends all series.
            now = int(time.time() * 1000)
            self.wfile.write(re.sub(r"(?m)^([^#\n].*)$", rf"\1 {now}", page or "").encode())

        def log_message(self, *unused: object) -> None:
            pass

    def __init__(self, page: str | None) -> None:
        self.page = page
        super().__init__(("127.0.0.1", 0), self.RequestHandlerClass)
        Thread(target=self.serve_forever, daemon=True).start()


_CONFIG = """
global: {{scrape_interval: 3s, scrape_timeout: 3s}}
scrape_configs:
- job_name: dcgm
  static_configs: [{{targets: ["{target}"], labels: {labels}}}]
"""
