"""The official Python SDK's client: read the card, send one message, print. Arguments: URL."""

import asyncio
import sys
import uuid

from a2a.client import ClientConfig, create_client
from a2a.helpers import get_artifact_text, get_message_text
from a2a.types import Message, Part, Role, SendMessageRequest


async def main(url):
    config = ClientConfig(supported_protocol_bindings=["JSONRPC"], streaming=False)
    client = await create_client(url, client_config=config)
    message = Message(
        role=Role.ROLE_USER, message_id=str(uuid.uuid4()), parts=[Part(text="hello cold")]
    )
    async for event in client.send_message(SendMessageRequest(message=message)):
        if event.HasField("message"):
            print(get_message_text(event.message))
        else:
            print(get_artifact_text(event.task.artifacts[0]))
    await client.close()


asyncio.run(main(sys.argv[1]))
