"""The official Python SDK's server: Starlette, uvicorn and grpc.aio. Arguments: PORT GRPC_PORT."""

import asyncio
import logging
import sys
import uuid

import grpc
import uvicorn
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
    Artifact,
    Message,
    Part,
    Role,
    Task,
    TaskState,
    TaskStatus,
    a2a_pb2_grpc,
)
from starlette.applications import Starlette


class Echo(AgentExecutor):
    async def cancel(self, context, queue):
        await TaskUpdater(queue, context.task_id, context.context_id).cancel()

    async def execute(self, context, queue):
        text = context.get_user_input()
        if text.startswith("msg"):
            await queue.enqueue_event(
                Message(
                    message_id=str(uuid.uuid4()),
                    role=Role.ROLE_AGENT,
                    context_id=context.context_id,
                    parts=[Part(text=text)],
                )
            )
        elif text.startswith(("chunks:", "hold:", "full")):
            await queue.enqueue_event(new_task(context, TaskState.TASK_STATE_SUBMITTED))
            await work(TaskUpdater(queue, context.task_id, context.context_id), text)
        else:
            task = new_task(context, TaskState.TASK_STATE_COMPLETED)
            part = Part(text=text)
            artifact = Artifact(artifact_id=str(uuid.uuid4()), name="echo", parts=[part])
            task.artifacts.append(artifact)
            await queue.enqueue_event(task)


async def work(updater, text):
    await updater.start_work()
    word = text.split()[0]
    if word.startswith("chunks:"):
        count, artifact_id = int(word[7:]), str(uuid.uuid4())
        for index in range(count):
            await updater.add_artifact(
                parts=[Part(text=f"chunk {index} of the answer")],
                artifact_id=artifact_id,
                name="out",
                append=index > 0,
                last_chunk=index == count - 1,
            )
    elif word.startswith("hold:"):
        await asyncio.sleep(float(word[5:]))
    else:
        await updater.add_artifact(parts=[Part(text=text)], name="echo")
    await updater.complete()


def new_task(context, state):
    task = Task(
        id=context.task_id,
        context_id=context.context_id,
        status=TaskStatus(state=state),
        history=[context.message],
    )
    task.status.timestamp.GetCurrentTime()
    return task


def card(port, grpc_port):
    base = f"http://127.0.0.1:{port}"
    urls = {"JSONRPC": base + "/rpc", "HTTP+JSON": base + "/rest"}
    urls["GRPC"] = f"127.0.0.1:{grpc_port}"
    return AgentCard(
        name="echo",
        description="echo",
        version="1.0.0",
        capabilities=AgentCapabilities(streaming=True, push_notifications=False),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="echo", name="echo", description="echo", tags=["echo"])],
        supported_interfaces=[
            AgentInterface(protocol_binding=binding, protocol_version="1.0", url=url)
            for binding, url in urls.items()
        ],
    )


async def main(port, grpc_port):
    description = card(port, grpc_port)
    handler = DefaultRequestHandler(
        agent_executor=Echo(), task_store=InMemoryTaskStore(), agent_card=description
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
    await uvicorn.Server(config).serve()


logging.basicConfig(level=logging.ERROR)
asyncio.run(main(*map(int, sys.argv[1:])))
