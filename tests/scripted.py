"""An agent for tests that answers as the test says and keeps what was sent to it.

server = Scripted(lambda method, params: {"task": task("COMPLETED")})
... call server.url ...; server.sent("SendMessage"); server.__exit__()
"""

import http.server
import json
import threading

import a2a

STATE = "TASK_STATE_"


class Scripted(http.server.ThreadingHTTPServer):
    """An agent that answers as a test says, and keeps every request.

    answer      function(method, params) giving a result, a list (streamed) or an a2a.Fault
    requests    (headers, method, params) in order; card fetches have the method "card"
    """

    daemon_threads = True

    def __init__(self, answer, **card):
        super().__init__(("127.0.0.1", 0), ScriptedHandler)
        self.answer, self.requests = answer, []
        self.url = f"http://127.0.0.1:{self.server_port}"
        rpc = {"url": self.url + "/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        self.card = {
            "name": "Scripted",
            "description": "As told",
            "version": "1",
            "supportedInterfaces": [rpc],
            "capabilities": {"streaming": True},
            "defaultInputModes": ["text/plain"],
            "defaultOutputModes": ["text/plain"],
            "skills": [],
            **card,
        }
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()

    def sent(self, method):
        """Give the params of every call of a method."""
        return [params for _, name, params in self.requests if name == method]


class ScriptedHandler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        self.server.requests.append((dict(self.headers), "card", self.path))
        known = self.path.split("?")[0] in (a2a.CARD_PATH, "/cards/x.json")
        self.send(self.server.card if known else {}, 200 if known else 404)

    def do_POST(self):
        call = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((dict(self.headers), call["method"], call["params"]))
        answer = self.server.answer(call["method"], call["params"])
        base = {"jsonrpc": "2.0", "id": call["id"]}
        if isinstance(answer, list):
            return self.stream(base, answer)
        if isinstance(answer, int):
            return self.send({}, answer)
        if isinstance(answer, a2a.Fault):
            return self.send(
                {**base, "error": {"code": answer.jsonrpc_code, "message": answer.message}}
            )
        return self.send({**base, "result": answer})

    def send(self, value, status=200):
        body = json.dumps(value).encode()
        self.send_response(status)
        if status == 401:
            self.send_header("WWW-Authenticate", 'Bearer realm="a"')
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def stream(self, base, events):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for event in events:
            if callable(event):
                event()
                continue
            self.wfile.write(b"data: " + json.dumps({**base, "result": event}).encode() + b"\n\n")
            self.wfile.flush()
        self.close_connection = True


def task(state, task_id="t-1", context_id="c-1", **more):
    return {"id": task_id, "contextId": context_id, "status": {"state": STATE + state}, **more}


def update(state, task_id="t-1", context_id="c-1"):
    status = {"state": STATE + state}
    return {"statusUpdate": {"taskId": task_id, "contextId": context_id, "status": status}}
