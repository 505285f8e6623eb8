"""What several test files need: a free port, a2a.py as a child process, raw HTTP bytes, events.

Import it after a2a, from a test in this folder:

    import support
    with support.Served("--agent", "echo") as agent:      # python a2a.py serve, ended at exit
        reply = support.rpc(agent.port, "SendMessage", {"message": support.message("hi")})

A test that needs what a machine may lack skips itself:

    @unittest.skipUnless(support.has("curl"), "no curl")
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[1]
A2A = ROOT / "a2a.py"
VECTORS = ROOT / "tests" / "vectors"
DEADLINE_S = 30.0  # how long a test waits for another process before it gives up

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # A shell's job in the background ignores Ctrl-C, and so would every process started here.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def has(program):
    """Say whether a program is on PATH."""
    return shutil.which(program) is not None


def free_port():
    """Give a port of loopback that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def clean_environment(**changes):
    """Give the environment without what would configure a2a.py, plus changes.

    Home is an empty folder. A value None in changes takes a name out.
    """
    ours = ("A2A", "CLAUDE", "PYTHONIOENCODING", "PYTHONUNBUFFERED", "PYTHONWARNINGS")
    proxies = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.upper().startswith(ours) and name.upper() not in proxies
    }
    home = _empty_home()
    kept.update(HOME=home, USERPROFILE=home, APPDATA=home, XDG_CONFIG_HOME=home)
    kept.update({name: value for name, value in changes.items() if value is not None})
    for name in [name for name, value in changes.items() if value is None]:
        kept.pop(name, None)
    return kept


_HOME = []


def _empty_home():
    if not _HOME:
        _HOME.append(tempfile.TemporaryDirectory(prefix="a2a-test-home-"))
    return _HOME[0].name


def run_cli(*arguments, stdin=None, env=None, cwd=None, timeout=DEADLINE_S):
    """Run `python a2a.py ARGUMENTS` to its end; give subprocess.CompletedProcess with text output.

    stdin        text or None (then it is empty, never the terminal)
    env          changes to clean_environment(), a dict
    """
    return subprocess.run(
        [sys.executable, str(A2A), *map(str, arguments)],
        input="" if stdin is None else stdin,
        capture_output=True,
        encoding="utf-8",
        env=clean_environment(**(env or {})),
        cwd=cwd or _empty_home(),
        timeout=timeout,
    )


def run_main(*arguments, stdin=None, env=None, cwd=None):
    """Do what run_cli does by a2a.main() in this process: fast, and seen by coverage.

    Signals, encodings of the console and broken pipes need a process: run_cli, Process.
    """
    a2a = sys.modules["a2a"]
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in "12")
    kept = sys.argv, sys.stdin, sys.stdout, sys.stderr
    environment, folder = dict(os.environ), os.getcwd()
    terminate = signal.getsignal(signal.SIGTERM)
    try:
        os.environ.clear()
        os.environ.update(clean_environment(**(env or {})))
        os.chdir(cwd or _empty_home())
        sys.argv, sys.stdout, sys.stderr = [str(A2A)], out, err
        sys.stdin = io.TextIOWrapper(io.BytesIO((stdin or "").encode()), "utf-8")
        status = a2a.main([str(argument) for argument in arguments])
    finally:
        sys.argv, sys.stdin, sys.stdout, sys.stderr = kept
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        signal.signal(signal.SIGTERM, terminate)
    out.flush(), err.flush()
    stdout, stderr = (stream.buffer.getvalue().decode() for stream in (out, err))
    return subprocess.CompletedProcess(arguments, status, stdout, stderr)


class Process:
    """A child process whose output is drained by threads, so that it never blocks on a pipe.

    with Process([...]) as child: child.wait_for("ready"); ends it (and its group) at exit.
    """

    def __init__(self, command, *, env=None, cwd=None):
        new_group = {"creationflags": 512} if os.name == "nt" else {"start_new_session": True}
        self.popen = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=clean_environment() if env is None else env,
            cwd=cwd or _empty_home(),
            **new_group,
        )
        self._news = threading.Condition()
        self._text = {"stdout": "", "stderr": ""}
        self._readers = [
            threading.Thread(target=self._drain, args=(name,), daemon=True) for name in self._text
        ]
        for reader in self._readers:
            reader.start()

    def _drain(self, name):
        stream = getattr(self.popen, name)
        for line in iter(stream.readline, b""):
            with self._news:
                self._text[name] += line.decode("utf-8", "replace")
                self._news.notify_all()
        stream.close()
        with self._news:
            self._news.notify_all()

    @property
    def stdout(self):
        return self._text["stdout"]

    @property
    def stderr(self):
        return self._text["stderr"]

    def wait_for(self, text, stream="stdout", timeout=DEADLINE_S):
        """Wait until a line with text came out of the stream; give that line."""
        until = time.monotonic() + timeout
        with self._news:
            while True:
                lines = self._text[stream].split("\n")[:-1]
                found = next((line for line in lines if text in line), None)
                if found is not None:
                    return found
                left = until - time.monotonic()
                if left <= 0 or self._over():
                    raise AssertionError(
                        f"no {text!r} on {stream} of {self.popen.args}\n"
                        f"exit status {self.popen.poll()}\n{self.stdout}\n{self.stderr}"
                    )
                self._news.wait(min(left, 0.5))

    def wait_for_port(self, port, timeout=DEADLINE_S):
        """Wait until something answers on a port of loopback."""
        until = time.monotonic() + timeout
        while time.monotonic() < until and not self._over():
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return
            time.sleep(0.05)
        raise AssertionError(f"nothing answers on port {port}\n{self.stdout}\n{self.stderr}")

    def _over(self):
        return self.popen.poll() is not None and not any(r.is_alive() for r in self._readers)

    def wait(self, timeout=DEADLINE_S):
        """Wait for the end; give the exit status."""
        status = self.popen.wait(timeout)
        for reader in self._readers:
            reader.join(timeout)
        return status

    def terminate(self):
        """Ask it to end, as a service manager does."""
        self.popen.terminate()

    def kill(self):
        """End it and its group at once."""
        if os.name == "nt":
            self.popen.kill()
        else:
            try:
                os.killpg(self.popen.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                self.popen.kill()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.popen.poll() is None:
            self.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.popen.wait(5)
        self.kill()
        self.wait()


class Served(Process):
    """`python a2a.py serve ARGUMENTS --port 0` on loopback, ready to be called.

    url, port    where it answers
    ready        the whole line that said so, as a dict
    """

    def __init__(self, *arguments, python=sys.executable, env=None, cwd=None):
        command = [python, A2A, "serve", *arguments, "-o", "json"]
        if "--port" not in arguments:
            command += ["--port", "0"]
        super().__init__(command, env=clean_environment(**(env or {})), cwd=cwd)
        try:
            self.ready = json.loads(self.wait_for('"ready"'))
        except BaseException:
            self.kill()
            self.wait()
            raise
        self.url = self.ready["url"].rstrip("/")
        self.port = self.ready["port"]


# --- bytes ---------------------------------------------------------------------------------------


class Raw:
    """One TCP connection to loopback that sends exactly the bytes it is given.

    with Raw(port) as raw: raw.send(b"GET / ..."); status, headers, body = raw.read_reply()
    """

    def __init__(self, port, host="127.0.0.1", timeout=DEADLINE_S):
        self.socket = socket.create_connection((host, port), timeout=timeout)
        self._held = b""

    def send(self, data):
        """Send bytes. A peer that has already closed is no error: what it answered can be read."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError, ConnectionAbortedError):
            self.socket.sendall(data)

    def read_some(self):
        """Give the next bytes; b"" when the peer has closed or reset."""
        if self._held:
            held, self._held = self._held, b""
            return held
        try:
            return self.socket.recv(65536)
        except (ConnectionResetError, ConnectionAbortedError):
            return b""

    def read_until(self, mark):
        """Give the bytes up to and with mark, or all there were when the peer closed before."""
        data = self.read_some()
        while mark not in data:
            more = self.read_some()
            if not more:
                return data
            data += more
        at = data.index(mark) + len(mark)
        self._held = data[at:]
        return data[:at]

    def read_exactly(self, count):
        data = b""
        while len(data) < count:
            more = self.read_some()
            if not more:
                return data
            data += more
        self._held = data[count:]
        return data[:count]

    def read_all(self):
        """Give everything until the peer closes."""
        data = b""
        while True:
            more = self.read_some()
            if not more:
                return data
            data += more

    def read_head(self):
        """Read a status line and headers; give (status, headers with lower-case names)."""
        head = self.read_until(b"\r\n\r\n").decode("latin-1")
        first, _, rest = head.partition("\r\n")
        if not first.startswith("HTTP/1."):
            raise AssertionError(f"no HTTP answer but {head!r}")
        headers = {}
        for line in rest.split("\r\n"):
            name, colon, value = line.partition(":")
            if colon:
                before = headers.get(name.lower(), "")
                headers[name.lower()] = before + ", " * bool(before) + value.strip()
        return int(first.split()[1]), headers

    def read_chunk(self):
        """Read one chunk of a chunked body; b"" is the last."""
        size = int(self.read_until(b"\r\n").split(b";")[0], 16)
        return self.read_exactly(size + 2)[:-2]

    def read_body(self, headers):
        if headers.get("transfer-encoding", "") == "chunked":
            return b"".join(iter(self.read_chunk, b""))
        if "content-length" in headers:
            return self.read_exactly(int(headers["content-length"]))
        return self.read_all()

    def read_reply(self):
        """Read one whole answer; give (status, headers, body)."""
        status, headers = self.read_head()
        if status in (204, 304):
            return status, headers, b""
        return status, headers, self.read_body(headers)

    def events(self):
        """Give the data of each server-sent event until the stream ends (after read_head)."""
        buffer = b""
        while True:
            chunk = self.read_chunk()
            if not chunk:
                return
            buffer += chunk
            while b"\n\n" in buffer:
                event, buffer = buffer.split(b"\n\n", 1)
                lines = [line[5:].lstrip() for line in event.split(b"\n") if line[:5] == b"data:"]
                if lines:
                    yield json.loads(b"\n".join(lines))

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def head(method, target, port, headers=(), body=b""):
    """Give the bytes of one HTTP/1.1 request with Host, A2A-Version, and JSON when there is a body.

    headers      pairs (name, value); a value None takes the default of that name out
    """
    fields = {"host": ("Host", f"127.0.0.1:{port}"), "a2a-version": ("A2A-Version", "1.0")}
    if body:
        fields["content-type"] = ("Content-Type", "application/json")
    if body or method == "POST":
        fields["content-length"] = ("Content-Length", str(len(body)))
    for name, value in headers:
        fields[name.lower()] = (name, value)
    lines = [f"{method} {target} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in fields.values() if value is not None]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def http(port, method, target, headers=(), body=b"", host="127.0.0.1"):
    """Do one request on a connection of its own; give (status, headers, body)."""
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    with Raw(port, host) as raw:
        raw.send(head(method, target, port, headers, body))
        return raw.read_reply()


def message(text="hello", **fields):
    """Give a Message of one text part, from the user."""
    base = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": text}]}
    return {**base, **fields}


def rpc_body(method, params, request_id="1"):
    return json.dumps(
        {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
    ).encode()


def rpc(port, method, params, headers=(), target="/"):
    """Call over JSON-RPC; give the answer object, with "result" or "error"."""
    status, _, body = http(port, "POST", target, headers, rpc_body(method, params))
    answer = json.loads(body)
    answer["http_status"] = status
    return answer


def stream(port, method, params, headers=(), target="/"):
    """Call a streaming operation over JSON-RPC; give its answer objects one by one."""
    with Raw(port) as raw:
        raw.send(head("POST", target, port, headers, rpc_body(method, params)))
        status, fields = raw.read_head()
        if fields.get("content-type", "").split(";")[0] != "text/event-stream":
            yield {**json.loads(raw.read_body(fields)), "http_status": status}
            return
        yield from raw.events()


def sliced(data, sizes=(1,)):
    """Give data in pieces of the sizes in turn: parsers must not care where a read ends."""
    at = index = 0
    while at < len(data):
        size = sizes[index % len(sizes)]
        yield data[at : at + size]
        at, index = at + size, index + 1


# --- peers that do exactly what a test wants -----------------------------------------------------


class Visit:
    """One connection to a Peer: read requests, send any bytes."""

    def __init__(self, peer, connected):
        self.peer = peer
        self.socket = connected
        self._raw = Raw.__new__(Raw)
        self._raw.socket, self._raw._held = connected, b""

    def read(self):
        """Read a request whole; give (method, target, headers, body), or None at the end."""
        head = self._raw.read_until(b"\r\n\r\n")
        if not head.endswith(b"\r\n\r\n"):
            return None
        first, _, rest = head.decode("latin-1").partition("\r\n")
        pairs = [line.partition(":") for line in rest.split("\r\n") if line]
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        body = self._raw.read_exactly(int(headers.get("content-length", "0")))
        method, target, _ = first.split(" ")
        request = (method, target, headers, body)
        self.peer.requests.append(request)
        return request

    def send(self, data):
        """Send exactly these bytes; that the other side has gone is no error."""
        with contextlib.suppress(OSError):
            self.socket.sendall(data)

    def answer(self, body=b"", status=200, media_type="application/json", **headers):
        """Send one whole answer; a value that is not bytes goes out as JSON."""
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}"]
        lines += [f"Content-Type: {media_type}"] if media_type else []
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.send("\r\n".join([*lines, "", ""]).encode("latin-1") + body)

    def begin_stream(self):
        """Send the head of an event stream that ends with the connection."""
        self.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")

    def event(self, value):
        """Send one event."""
        self.send(b"data: " + json.dumps(value).encode() + b"\n\n")

    def wait_for_end(self):
        """Wait until the other side closes."""
        with contextlib.suppress(OSError):
            while self.socket.recv(65536):
                pass


class Peer:
    """A server on loopback that runs script(visit) in a thread for each connection.

    with Peer(script) as peer: ... peer.url, peer.port
    requests     what Visit.read gave, in order; visits: how many connections there were
    tls          an ssl.SSLContext for the server's side
    """

    def __init__(self, script, *, tls=None, host="127.0.0.1"):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.socket(family)
        self._listener.bind((host, 0))
        self._listener.listen(50)
        self.script, self.tls = script, tls
        self.requests, self.errors, self.visits = [], [], 0
        self.port = self._listener.getsockname()[1]
        named = f"[{host}]" if ":" in host else host
        self.url = f"{'https' if tls else 'http'}://{named}:{self.port}"
        self._sockets = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connected, _ = self._listener.accept()
            except OSError:
                return
            self.visits += 1
            self._sockets.append(connected)
            threading.Thread(target=self._serve, args=(connected,), daemon=True).start()

    def _serve(self, connected):
        connected.settimeout(DEADLINE_S)
        try:
            if self.tls:
                connected = self.tls.wrap_socket(connected, server_side=True)
                self._sockets.append(connected)
            self.script(Visit(self, connected))
        except OSError as error:  # a refused handshake, a client that has gone
            self.errors.append(error)
        finally:
            with contextlib.suppress(OSError):
                connected.shutdown(socket.SHUT_RDWR)
            connected.close()

    def close(self):
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connected in self._sockets:
            with contextlib.suppress(OSError):
                connected.shutdown(socket.SHUT_RDWR)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


_CERTIFICATES = []


def certificates():
    """Give a folder of certificates for 127.0.0.1 and localhost, whose names say what they are.

    ca.pem and rogue-ca.pem are authorities. NAME.crt and NAME.key, both also in NAME.pem, are of
    server, client, person (e-mail), plain (a common name alone), expired; rogue (of rogue-ca).
    locked.key is server's under the pass phrase "open sesame". openssl makes them once.
    """
    if not _CERTIFICATES:
        folder = tempfile.TemporaryDirectory(prefix="a2a-test-certificates-")
        _CERTIFICATES.append(folder)
        for authority in ("ca", "rogue-ca"):
            openssl(
                "req", "-x509", *_NEW_KEY, "-subj", f"/CN=test {authority}",
                "-days", "2", "-keyout", f"{authority}.key", "-out", f"{authority}.pem",
                "-addext", "keyUsage=critical,keyCertSign",
            )  # fmt: skip
        here = "IP:127.0.0.1,DNS:localhost"
        certificate("server", "ca", here)
        certificate("client", "ca", f"{here},URI:spiffe://test/caller")
        certificate("person", "ca", "email:someone@example.org")
        certificate("plain", "ca", "")
        certificate("expired", "ca", here, days=-1)
        certificate("rogue", "rogue-ca", here)
        openssl(
            "pkcs8", "-topk8", "-in", "server.key", "-out", "locked.key",
            "-passout", "pass:open sesame",
        )  # fmt: skip
    return pathlib.Path(_CERTIFICATES[0].name)


def ssl_context(certificate):
    """Give the TLS settings of a server with that certificate and key."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def certificate(name, authority, names, days=2):
    """Make one more certificate in the folder of certificates(), with its key."""
    path = certificates()
    openssl(
        "req", *_NEW_KEY, "-subj", f"/CN={name}", "-keyout", f"{name}.key",
        "-out", f"{name}.csr",
    )  # fmt: skip
    lines = ["authorityKeyIdentifier=keyid", *([f"subjectAltName={names}"] if names else [])]
    (path / "names").write_text("\n".join([*lines, ""]), encoding="latin-1")
    openssl(
        "x509", "-req", "-in", f"{name}.csr", "-CA", f"{authority}.pem", "-CAkey",
        f"{authority}.key", "-CAcreateserial", "-days", days, "-extfile", "names",
        "-out", f"{name}.crt",
    )  # fmt: skip
    both = (path / f"{name}.crt").read_text() + (path / f"{name}.key").read_text()
    (path / f"{name}.pem").write_text(both)


def openssl(*arguments):
    """Run openssl in the folder of certificates()."""
    folder = certificates()
    subprocess.run(["openssl", *map(str, arguments)], cwd=folder, check=True, capture_output=True)
