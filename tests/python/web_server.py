# SPDX-License-Identifier: Apache-2.0
"""A web server on loopback that shows a folder and gives ranges of files."""

from __future__ import annotations

import contextlib
import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path


class _Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Nothing is written."""

    def do_GET(self) -> None:
        """With the one header that Python's server does not know."""
        asked = self.headers.get("Range")
        file = Path(self.translate_path(self.path))
        if asked is None or not file.is_file():
            super().do_GET()
            return
        first, last = map(int, asked.removeprefix("bytes=").split("-"))
        data = file.read_bytes()
        part = data[first : last + 1]
        self.send_response(206)
        self.send_header("Content-Length", str(len(part)))
        self.send_header("Content-Range", f"bytes {first}-{first + len(part) - 1}/{len(data)}")
        self.send_header("Last-Modified", self.date_time_string(int(file.stat().st_mtime)))
        self.end_headers()
        self.wfile.write(part)


class _Server(http.server.ThreadingHTTPServer):
    request_queue_size = 256  # with the usual 5 whoever comes sixth tries again a second later
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Whoever asked may be gone."""


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The address of a folder while somebody serves it."""
    handler = functools.partial(_Handler, directory=str(folder))
    with _Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
