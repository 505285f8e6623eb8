"""The official Python SDK's client, driven from outside.

    python sdk_client.py URL TRANSPORT OPERATION PARAMS     one call: a name and JSON
    python sdk_client.py URL TRANSPORT                      a call for each line of stdin

A line of stdin is {"id": 1, "operation": ..., "params": ...}. TRANSPORT is JSONRPC, HTTP+JSON or
GRPC. Each answer is a line with the id of its call: {"id": 1, "result": ...} for one answer or each
event, then {"id": 1, "end": true}; or {"id": 1, "error": {"type": ..., "message": ...}}. Calls run
side by side. It never shares a process with a2a.py: both are called a2a. A key in PEER_API_KEY is
what the SDK's own interceptor may sign in with, as the card says. PEER_CA and PEER_CERT are files:
whom to trust under TLS, and a certificate of the client with its key.
"""

import asyncio
import json
import os
import pathlib
import ssl
import sys

import grpc
import httpx
from a2a.client import ClientConfig, ClientFactory, CredentialService
from a2a.client.auth import AuthInterceptor
from a2a.types import a2a_pb2
from google.protobuf.json_format import MessageToDict, ParseDict

# operation: (request message, method of the client, is its answer a stream?)
OPERATIONS = {
    "SendMessage": ("SendMessageRequest", "send_message", True),
    "SendStreamingMessage": ("SendMessageRequest", "send_message", True),
    "GetTask": ("GetTaskRequest", "get_task", False),
    "ListTasks": ("ListTasksRequest", "list_tasks", False),
    "CancelTask": ("CancelTaskRequest", "cancel_task", False),
    "SubscribeToTask": ("SubscribeToTaskRequest", "subscribe", True),
    "CreateTaskPushNotificationConfig": (
        "TaskPushNotificationConfig",
        "create_task_push_notification_config",
        False,
    ),
    "GetTaskPushNotificationConfig": (
        "GetTaskPushNotificationConfigRequest",
        "get_task_push_notification_config",
        False,
    ),
    "ListTaskPushNotificationConfigs": (
        "ListTaskPushNotificationConfigsRequest",
        "list_task_push_notification_configs",
        False,
    ),
    "DeleteTaskPushNotificationConfig": (
        "DeleteTaskPushNotificationConfigRequest",
        "delete_task_push_notification_config",
        False,
    ),
    "GetExtendedAgentCard": ("GetExtendedAgentCardRequest", "get_extended_agent_card", False),
}


class OneKey(CredentialService):
    """The same key, whatever a card calls the scheme."""

    async def get_credentials(self, security_scheme_name, context):
        return os.environ["PEER_API_KEY"]


CA, CERT = os.environ.get("PEER_CA"), os.environ.get("PEER_CERT")


def open_channel(target):
    """Open a channel of gRPC, under TLS if there is somebody to trust."""
    if not CA:
        return grpc.aio.insecure_channel(target)
    ours = pathlib.Path(CERT).read_bytes() if CERT else None
    credentials = grpc.ssl_channel_credentials(pathlib.Path(CA).read_bytes(), ours, ours)
    return grpc.aio.secure_channel(target, credentials)


def tls():
    """Give what is trusted over HTTP."""
    context = ssl.create_default_context(cafile=CA)
    if CERT:
        context.load_cert_chain(CERT)
    return context


class Driver:
    """Clients for one server: a streaming one and one that is not."""

    def __init__(self, url, transport):
        self.url, self.transport = url, transport
        self.clients = {}

    async def client(self, streaming):
        if streaming not in self.clients:
            config = ClientConfig(
                streaming=streaming,
                supported_protocol_bindings=[self.transport],
                grpc_channel_factory=open_channel,
                httpx_client=httpx.AsyncClient(verify=tls()) if CA else None,
            )
            signing_in = [AuthInterceptor(OneKey())] if "PEER_API_KEY" in os.environ else []
            factory = ClientFactory(config)
            self.clients[streaming] = await factory.create_from_url(self.url, signing_in)
        return self.clients[streaming]

    async def call(self, number, operation, params):
        """Do one call and print what comes."""
        message, method, streams = OPERATIONS[operation]
        try:
            client = await self.client(operation != "SendMessage")
            request = ParseDict(params, getattr(a2a_pb2, message)())
            answer = getattr(client, method)(request)
            if streams:
                async for event in answer:
                    say(number, result=document(event))
            else:
                say(number, result=document(await answer))
            say(number, end=True)
        except Exception as error:  # whatever it is, the test wants to see its type
            say(number, error={"type": type(error).__name__, "message": str(error)})

    async def close(self):
        for client in self.clients.values():
            await client.close()


def document(message):
    return None if message is None else MessageToDict(message)


def say(number, **fields):
    print(json.dumps({"id": number, **fields}), flush=True)


async def main(url, transport, operation=None, params="{}"):
    driver = Driver(url, transport)
    if operation is not None:
        await driver.call(0, operation, json.loads(params))
    else:
        loop, running = asyncio.get_running_loop(), set()
        while True:
            line = await loop.run_in_executor(None, sys.stdin.readline)
            if not line:
                break
            call = json.loads(line)
            running.add(
                loop.create_task(driver.call(call["id"], call["operation"], call["params"]))
            )
    await driver.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
