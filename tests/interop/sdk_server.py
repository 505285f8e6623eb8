"""A server made with the official Python SDK, over all its transports.

    python sdk_server.py PORT GRPC_PORT

Prints "ready" when it answers. The first word of a message's text says what it does; agents.md
beside this file lists the words. It never shares a process with a2a.py: both are called a2a.
"""

import asyncio
import sys
import uuid

import grpc
import uvicorn
from a2a.helpers import new_data_part, new_raw_part, new_text_part, new_url_part
from a2a.server.agent_execution.agent_executor import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.routes import (
    create_agent_card_routes,
    create_jsonrpc_routes,
    create_rest_routes,
)
from a2a.server.tasks.inmemory_task_store import InMemoryTaskStore
from a2a.server.tasks.task_updater import TaskUpdater
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    Message,
    Part,
    Role,
    Task,
    TaskState,
    TaskStatus,
    a2a_pb2_grpc,
)
from starlette.applications import Starlette


class Words(AgentExecutor):
    """Does what the first word of the text says."""

    async def cancel(self, context, queue):
        await TaskUpdater(queue, context.task_id, context.context_id).cancel()

    async def execute(self, context, queue):
        text = context.get_user_input()
        word, _, rest = text.partition(" ")
        if word == "msg":
            await queue.enqueue_event(reply(context, rest))
            return
        updater = TaskUpdater(queue, context.task_id, context.context_id)
        if context.current_task is None:
            await queue.enqueue_event(new_task(context))
        else:
            word, rest = "answer", text
        await updater.start_work()
        await getattr(self, word, self.echo)(updater, rest, context)

    async def echo(self, updater, rest, context):
        await updater.add_artifact([copy(part) for part in context.message.parts], name="echo")
        await updater.complete()

    async def chunks(self, updater, rest, context):
        artifact_id, count = str(uuid.uuid4()), int(rest)
        for index in range(count):
            await updater.add_artifact(
                [new_text_part(f"{index} ")],
                artifact_id=artifact_id,
                append=index > 0,
                last_chunk=index == count - 1,
            )
        await updater.complete()

    async def ask(self, updater, rest, context):
        await updater.requires_input(updater.new_agent_message([new_text_part("which colour?")]))

    async def answer(self, updater, rest, context):
        await updater.add_artifact([new_text_part("you chose " + rest)], name="answer")
        await updater.complete()

    async def fail(self, updater, rest, context):
        await updater.failed(updater.new_agent_message([new_text_part("it broke: " + rest)]))

    async def reject(self, updater, rest, context):
        await updater.reject(updater.new_agent_message([new_text_part("not for me")]))

    async def files(self, updater, rest, context):
        await updater.add_artifact(
            [new_text_part("# Report", media_type="text/markdown")], name="a"
        )
        part = new_raw_part(bytes(range(256)), media_type="image/png", filename="dot.png")
        await updater.add_artifact([part], name="b")
        part = new_url_part("https://h.example/?a=1&b=<2>", media_type="text/html")
        await updater.add_artifact([part], name="c")
        await updater.complete()

    async def data(self, updater, rest, context):
        value = {"n": 1, "f": 0.5, "list": [1, "two", None], "deep": {"ü": "東京 😀"}}
        await updater.add_artifact([new_data_part(value)], name="data")
        await updater.complete()

    async def hold(self, updater, rest, context):
        await asyncio.sleep(float(rest))
        await updater.complete()


def copy(part):
    fresh = Part()
    fresh.CopyFrom(part)
    return fresh


def reply(context, text):
    return Message(
        message_id=str(uuid.uuid4()),
        role=Role.ROLE_AGENT,
        context_id=context.context_id,
        parts=[Part(text=text)],
    )


def new_task(context):
    task = Task(
        id=context.task_id,
        context_id=context.context_id,
        status=TaskStatus(state=TaskState.TASK_STATE_SUBMITTED),
        history=[context.message],
    )
    task.status.timestamp.GetCurrentTime()
    return task


def card(port, grpc_port):
    base = f"http://127.0.0.1:{port}"
    interfaces = [("JSONRPC", base + "/rpc"), ("HTTP+JSON", base + "/rest")]
    interfaces.append(("GRPC", f"127.0.0.1:{grpc_port}"))
    return AgentCard(
        name="words",
        description="does what the first word says",
        version="1.0.0",
        capabilities=AgentCapabilities(streaming=True, push_notifications=False),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="words", name="words", description="words", tags=["words"])],
        supported_interfaces=[
            AgentInterface(protocol_binding=binding, protocol_version="1.0", url=url)
            for binding, url in interfaces
        ],
    )


async def main(port, grpc_port):
    description = card(port, grpc_port)
    handler = DefaultRequestHandler(
        agent_executor=Words(), task_store=InMemoryTaskStore(), agent_card=description
    )
    app = Starlette(
        routes=[
            *create_agent_card_routes(agent_card=description),
            *create_jsonrpc_routes(request_handler=handler, rpc_url="/rpc"),
            *create_rest_routes(request_handler=handler, path_prefix="/rest"),
        ]
    )
    grpc_server = grpc.aio.server()
    grpc_server.add_insecure_port(f"127.0.0.1:{grpc_port}")
    a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(handler), grpc_server)
    await grpc_server.start()
    config = uvicorn.Config(app, host="127.0.0.1", port=port, access_log=False, log_level="warning")
    server = uvicorn.Server(config)
    serving = asyncio.ensure_future(server.serve())
    while not server.started and not serving.done():
        await asyncio.sleep(0.02)
    print("ready", flush=True)
    await serving


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:])))
