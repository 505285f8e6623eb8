"""grpcio on the other side, as client and as server, below the SDKs: bytes, metadata, statuses."""

import concurrent.futures
import contextlib
import pathlib
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import support

import a2a

try:
    import grpc
except ImportError as error:
    raise unittest.SkipTest("no grpcio: `python3 tests` installs it") from error

PATIENCE_S = 20.0
VERSION = (("a2a-version", "1.0"),)
PREFIX = "/lf.a2a.v1.A2AService/"
UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
NAMES = {code.value[0]: code.name for code in grpc.StatusCode}


def same(data):
    return data


def written(name, value):
    return a2a.write_protobuf(name, value)


def send_request(text="hello", **fields):
    return written("SendMessageRequest", {"message": support.message(text), **fields})


async def agent(turn):
    """Echo; count: chunks; nap: sleep."""
    import asyncio

    word, _, rest = turn.text.partition(":")
    if word == "count":
        for number in range(int(rest)):
            turn.artifact(f"{number} ", name="count", append=number > 0)
    elif word == "nap":
        turn.status("asleep")
        await asyncio.sleep(float(rest))
    else:
        turn.artifact(turn.message["parts"])


class StatusesTest(unittest.TestCase):
    def test_the_names_and_numbers_are_the_same(self):
        self.assertEqual(NAMES, dict(enumerate(a2a.GRPC_STATUSES)))


class ClientTest(unittest.TestCase):
    """grpcio calls our server."""

    @classmethod
    def setUpClass(cls):
        cls.server = a2a.Server(agent, port=0).start()
        cls.addClassCleanup(cls.server.stop)
        cls.channel = grpc.insecure_channel(f"127.0.0.1:{cls.server.port}", options=UNLIMITED)
        cls.addClassCleanup(cls.channel.close)

    def unary(self, method, request, metadata=VERSION, channel=None, **more):
        call = (channel or self.channel).unary_unary(PREFIX + method, same, same)
        return call(request, metadata=metadata, timeout=more.pop("timeout", PATIENCE_S), **more)

    def stream(self, method, request, metadata=VERSION, timeout=PATIENCE_S):
        call = self.channel.unary_stream(PREFIX + method, same, same)
        return call(request, metadata=metadata, timeout=timeout)

    def refusal(self, method, request, **more):
        with self.assertRaises(grpc.RpcError) as caught:
            self.unary(method, request, **more)
        return caught.exception

    def test_a_call(self):
        answer = a2a.read_protobuf("SendMessageResponse", self.unary("SendMessage", send_request()))
        self.assertEqual("hello", a2a.text_of(answer))

    def test_a_thousand_calls_at_once(self):
        call = self.channel.unary_unary(PREFIX + "SendMessage", same, same)
        futures = [call.future(send_request(f"m{n}"), metadata=VERSION) for n in range(1000)]
        texts = [
            a2a.text_of(a2a.read_protobuf("SendMessageResponse", future.result(PATIENCE_S)))
            for future in futures
        ]
        self.assertEqual([f"m{n}" for n in range(1000)], texts)

    def test_a_stream(self):
        events = [
            a2a.read_protobuf("StreamResponse", item)
            for item in self.stream("SendStreamingMessage", send_request("count:500"))
        ]
        task = {}
        for event in events:
            a2a.apply(task, event)
        text = "".join(part["text"] for part in task["artifacts"][0]["parts"])
        self.assertEqual("".join(f"{n} " for n in range(500)), text)

    def test_streams_side_by_side(self):
        streams = [
            self.stream("SendStreamingMessage", send_request("count:100")) for _ in range(20)
        ]
        self.assertEqual({102}, {len(list(stream)) for stream in streams})

    def test_six_megabytes_both_ways(self):
        """GRPC-06: to a client that was told to take them."""
        text = "0123456789abcdef" * (6 * 65536)
        data = self.unary("SendMessage", send_request(text, configuration={"historyLength": 0}))
        answer = a2a.read_protobuf("SendMessageResponse", data)
        self.assertEqual(text, a2a.text_of(answer))

    def test_a_message_over_our_limit(self):
        """GRPC-06: RESOURCE_EXHAUSTED."""
        error = self.refusal("SendMessage", send_request("x" * (a2a.BODY_BYTES + 1)))
        self.assertEqual(grpc.StatusCode.RESOURCE_EXHAUSTED, error.code())
        self.test_a_call()

    def test_a_refusal_has_its_details(self):
        """GRPC-03, GRPC-04: status, message and details of a trailers-only answer."""
        request = written("GetTaskRequest", {"id": "no \u6771 100%"})
        error = self.refusal("GetTask", request)
        self.assertEqual(
            (grpc.StatusCode.NOT_FOUND, "Task not found"), (error.code(), error.details())
        )
        packed = dict(error.trailing_metadata())["grpc-status-details-bin"]
        self.assertEqual("TASK_NOT_FOUND", a2a.read_status_details(packed)[0]["reason"])

    def test_a_message_of_any_characters(self):
        error = self.refusal("GetTask", written("GetTaskRequest", {}))
        self.assertEqual(grpc.StatusCode.INVALID_ARGUMENT, error.code())
        self.assertIn("id: is required", error.details())

    def test_unknown_methods(self):
        """GRPC-10."""
        error = self.refusal("Nothing", b"")
        self.assertEqual(grpc.StatusCode.UNIMPLEMENTED, error.code())
        call = self.channel.unary_unary("/a2a.v1.A2AService/SendMessage", same, same)
        with self.assertRaises(grpc.RpcError) as caught:
            call(b"", timeout=PATIENCE_S)
        self.assertEqual(grpc.StatusCode.UNIMPLEMENTED, caught.exception.code())

    def test_the_version_is_asked_for(self):
        error = self.refusal("SendMessage", send_request(), metadata=())
        self.assertEqual(grpc.StatusCode.FAILED_PRECONDITION, error.code())

    def test_a_deadline(self):
        error = self.refusal("SendMessage", send_request("nap:5"), timeout=0.2)
        self.assertEqual(grpc.StatusCode.DEADLINE_EXCEEDED, error.code())

    def test_cancelling_a_stream_ends_no_task(self):
        """SSE-18."""
        stream = self.stream("SendStreamingMessage", send_request("nap:0.3"))
        task_id = a2a.read_protobuf("StreamResponse", next(stream))["task"]["id"]
        stream.cancel()
        until, state = time.monotonic() + PATIENCE_S, ""
        while state != a2a.COMPLETED and time.monotonic() < until:
            data = self.unary("GetTask", written("GetTaskRequest", {"id": task_id}))
            state = a2a.read_protobuf("Task", data)["status"]["state"]
        self.assertEqual(a2a.COMPLETED, state)

    def test_a_compressed_message(self):
        """We do not take it, and say which we take by the status that gRPC has for it."""
        error = self.refusal(
            "SendMessage", send_request("x" * 5000), compression=grpc.Compression.Gzip
        )
        self.assertEqual(grpc.StatusCode.UNIMPLEMENTED, error.code())

    def test_large_metadata(self):
        metadata = (*VERSION, ("x-large", "y" * 6000), ("x-bin-bin", bytes(range(256))))
        self.unary("SendMessage", send_request(), metadata=metadata)
        with self.assertRaises(grpc.RpcError):
            self.unary("SendMessage", send_request(), metadata=(*VERSION, ("x", "y" * 60_000)))

    def test_keepalive_pings(self):
        options = [("grpc.keepalive_time_ms", 100), ("grpc.keepalive_permit_without_calls", 1),
                   ("grpc.http2.max_pings_without_data", 0)]  # fmt: skip
        target = f"127.0.0.1:{self.server.port}"
        with grpc.insecure_channel(target, options=options) as channel:
            self.assertTrue(self.unary("SendMessage", send_request(), channel=channel))
            time.sleep(0.5)
            self.assertTrue(self.unary("SendMessage", send_request(), channel=channel))

    def test_a_server_that_stops_ends_its_calls(self):
        server = a2a.Server(agent, port=0).start()
        with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
            call = channel.unary_stream(PREFIX + "SendStreamingMessage", same, same)
            stream = call(send_request("nap:60"), metadata=VERSION, timeout=PATIENCE_S)
            next(stream)
            server.stop()
            with contextlib.suppress(grpc.RpcError):
                list(stream)
            self.assertIsNotNone(stream.code())


class Handler(grpc.GenericRpcHandler):
    """A server of grpcio whose methods a test gives: {name: (function, streams)}."""

    def __init__(self, methods):
        self.methods = methods
        self.seen = []

    def service(self, details):
        name = details.method.rpartition("/")[2]
        if name not in self.methods or not details.method.startswith(PREFIX):
            return None
        self.seen.append(dict(details.invocation_metadata))
        function, streams = self.methods[name]
        if streams:
            return grpc.unary_stream_rpc_method_handler(function, same, same)
        return grpc.unary_unary_rpc_method_handler(function, same, same)


def task(state=a2a.COMPLETED, **more):
    return {"id": "t1", "contextId": "c1", "status": {"state": state}, **more}


class ServerTest(unittest.TestCase):
    """Our client calls a server of grpcio."""

    def serve(self, credentials=None, options=(), **methods):
        handler = Handler(methods)
        pool = concurrent.futures.ThreadPoolExecutor(8)
        server = grpc.server(pool, [handler], options=list(options))
        if credentials:
            port = server.add_secure_port("127.0.0.1:0", credentials)
        else:
            port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.addCleanup(pool.shutdown, wait=False)
        self.addCleanup(lambda: server.stop(0).wait())
        self.address = f"127.0.0.1:{port}"
        return handler

    def client(self, **options):
        interface = {"url": self.address, "protocolBinding": "GRPC", "protocolVersion": "1.0"}
        card = {
            "name": "n", "description": "d", "version": "1", "supportedInterfaces": [interface],
            "capabilities": {"streaming": True}, "skills": [],
            "defaultInputModes": [], "defaultOutputModes": [],
        }  # fmt: skip
        options = {"timeout_s": PATIENCE_S, "poll_interval_s": 0.05, "warn": lambda text: None,
                   **options}  # fmt: skip
        client = a2a.Client(card, **options)
        self.addCleanup(client.close)
        return client

    def test_a_call_and_its_metadata(self):
        """GRPC-01, GRPC-04, VER-04."""
        handler = self.serve(GetTask=(lambda request, context: written("Task", task()), False))
        self.assertEqual("t1", self.client(extensions=["u:1"]).get("t1")["id"])
        self.assertEqual(
            ("1.0", "u:1"), (handler.seen[0]["a2a-version"], handler.seen[0]["a2a-extensions"])
        )
        self.assertIn("a2a.py", handler.seen[0]["user-agent"])

    def test_a_stream(self):
        def stream(request, context):
            yield written("StreamResponse", {"task": task(a2a.WORKING)})
            time.sleep(0.1)
            status = {"taskId": "t1", "contextId": "c1", "status": {"state": a2a.COMPLETED}}
            yield written("StreamResponse", {"statusUpdate": status})

        self.serve(SendStreamingMessage=(stream, True))
        self.assertEqual(2, len(list(self.client().stream("hi"))))

    def test_refusals(self):
        """GRPC-03: an abort of grpcio is trailers alone; a method that is not there."""

        def refuse(request, context):
            context.abort(grpc.StatusCode.NOT_FOUND, "no t\xe4sk 100%")

        self.serve(GetTask=(refuse, False))
        client = self.client()
        with self.assertRaises(a2a.TaskNotFoundError) as caught:
            client.get("t1")
        self.assertEqual("no t\xe4sk 100%", caught.exception.message)
        with self.assertRaises(a2a.MethodNotFoundError):
            client.list()

    def test_details(self):
        def refuse(request, context):
            details = a2a.write_status_details(
                9, "no", a2a.TaskNotCancelableError().detail_objects()
            )
            context.set_trailing_metadata((("grpc-status-details-bin", details),))
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "no")

        self.serve(CancelTask=(refuse, False),
                   GetTask=(lambda request, context: written("Task", task()), False))  # fmt: skip
        with self.assertRaises(a2a.TaskNotCancelableError):
            self.client().cancel("t1")

    def test_six_megabytes(self):
        """GRPC-06: taken by a server that was told to; refused with its status by others."""
        sizes = []

        def take(request, context):
            sizes.append(len(request))
            large = {"artifactId": "a", "parts": [{"text": "y" * 6_000_000}]}
            return written("SendMessageResponse", {"task": task(artifacts=[large])})

        self.serve(SendMessage=(take, False), options=UNLIMITED)
        client = self.client()
        params = {"message": support.message("x" * 6_000_000)}
        answer = client.call("SendMessage", params)
        self.assertEqual(6_000_000, len(a2a.text_of(answer)))
        self.assertGreater(sizes[0], 6_000_000)
        self.serve(SendMessage=(take, False))
        with self.assertRaises(a2a.RateLimitedError) as caught:
            self.client().call("SendMessage", params)
        self.assertIn("larger", str(caught.exception))

    def test_our_deadline_reaches_the_server(self):
        left = []

        def slow(request, context):
            left.append(context.time_remaining())
            time.sleep(1)
            return written("Task", task())

        self.serve(GetTask=(slow, False))
        with self.assertRaises(a2a.TimeoutExpired):
            self.client(timeout_s=0.4).get("t1")
        self.assertLess(left[0], 0.5)

    def test_calls_of_threads_share_a_connection(self):
        peers = set()
        gate = threading.Barrier(6)

        def meet(request, context):
            peers.add(context.peer())
            gate.wait(PATIENCE_S)
            return written("ListTasksResponse", {"tasks": []})

        self.serve(GetTask=(lambda request, context: written("Task", task()), False),
                   ListTasks=(meet, False))  # fmt: skip
        client = self.client()
        client.get("t1")
        threads = [threading.Thread(target=client.list, daemon=True) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        self.assertEqual(1, len(peers))

    @unittest.skipUnless(support.has("openssl"), "no openssl to make certificates with")
    def test_tls(self):
        """GRPC-07, GRPC-08, AUTH-24: ALPN, a trusted authority, a client certificate."""
        folder = support.certificates()
        both = [(folder / name).read_bytes() for name in ("server.key", "server.crt")]
        authority = (folder / "ca.pem").read_bytes()
        answer = (lambda request, context: written("Task", task()), False)
        self.serve(grpc.ssl_server_credentials([both]), GetTask=answer)
        ca = str(folder / "ca.pem")
        url = f"https://{self.address}"
        self.assertEqual("t1", self.client(endpoint=url, ca=ca).get("t1")["id"])
        with self.assertRaises(a2a.Unreachable):
            self.client(endpoint=url).get("t1")
        self.serve(grpc.ssl_server_credentials([both], authority, True), GetTask=answer)
        url = f"grpcs://{self.address}"
        cert = str(folder / "client.pem")
        self.assertEqual("t1", self.client(endpoint=url, ca=ca, cert=cert).get("t1")["id"])
        with self.assertRaises(a2a.TransportError):
            self.client(endpoint=url, ca=ca).get("t1")

    def test_a_server_that_stops(self):
        """The call under way is an error of the transport; the next finds no server."""
        started = threading.Event()

        def hang(request, context):
            started.set()
            time.sleep(1)
            return written("Task", task())

        handler = Handler({"GetTask": (hang, False)})
        pool = concurrent.futures.ThreadPoolExecutor(2)
        server = grpc.server(pool, [handler])
        self.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        client, failures = self.client(), []

        def call():
            try:
                client.get("t1")
            except a2a.A2AError as error:
                failures.append(error)

        thread = threading.Thread(target=call, daemon=True)
        thread.start()
        started.wait(PATIENCE_S)
        server.stop(0).wait()
        thread.join(PATIENCE_S)
        self.assertEqual(1, len(failures))
        with self.assertRaises(a2a.TransportError):
            client.get("t1")
        pool.shutdown(wait=False)


if __name__ == "__main__":
    unittest.main()
