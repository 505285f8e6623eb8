"""An identity provider for tests that answers as the test says and keeps what was asked.

with FakeProvider() as idp:
    idp.pages["/.well-known/openid-configuration"] = idp.metadata()
    ... idp.asked, idp.forms("/token")
"""

import http.server
import json
import threading
import urllib.parse


class FakeProvider(http.server.ThreadingHTTPServer):
    """An identity provider on loopback.

    pages    path -> what it answers: a dict (200), (status, dict), bytes (200), a function of the
             form that gives one of these, or a list of such, used up from the front
    asked    "GET /path" in order; requests: (path, headers, form)
    """

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.pages, self.asked, self.requests = {}, [], []
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def metadata(self, path="", **changes):
        """Give the metadata of the issuer at a path."""
        issuer = self.url + path
        ends = {"token_endpoint": "/token", "device_authorization_endpoint": "/device"}
        ends["authorization_endpoint"] = "/authorize"
        return {"issuer": issuer, **{name: issuer + end for name, end in ends.items()}, **changes}

    def forms(self, path):
        """Give the forms that were posted to a path."""
        return [form for where, _, form in self.requests if where == path]

    def handle_error(self, *_):
        """Say nothing: clients that leave early are part of tests."""

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        form = dict(urllib.parse.parse_qsl(body, keep_blank_values=True))
        self.server.asked.append(f"{self.command} {self.path}")
        self.server.requests.append((self.path, dict(self.headers), form))
        page = self.server.pages.get(self.path, (404, {}))
        if isinstance(page, list):
            page = page.pop(0) if len(page) > 1 else page[0]
        if callable(page):
            page = page(form)
        if page is None:  # cut the connection
            self.close_connection = True
            return
        status, page, headers = (*page, {})[:3] if isinstance(page, tuple) else (200, page, {})
        body = page if isinstance(page, bytes) else json.dumps(page).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET
