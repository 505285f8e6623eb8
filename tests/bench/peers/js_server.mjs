// The official JavaScript SDK's server: express and grpc-js. Arguments: PORT GRPC_PORT.
import { randomUUID } from 'node:crypto';
import * as grpc from '@grpc/grpc-js';
import express from 'express';
import { Role, TaskState } from '@a2a-js/sdk';
import { AgentEvent, DefaultRequestHandler, InMemoryTaskStore } from '@a2a-js/sdk/server';
import {
  UserBuilder,
  agentCardHandler,
  jsonRpcHandler,
  restHandler,
} from '@a2a-js/sdk/server/express';
import { A2AService, grpcService } from '@a2a-js/sdk/server/grpc';

const [port, grpcPort] = process.argv.slice(2).map(Number);
const base = `http://127.0.0.1:${port}`;
const face = (protocolBinding, url) => ({
  protocolBinding,
  url,
  protocolVersion: '1.0',
  tenant: '',
});
const card = {
  name: 'echo',
  description: 'echo',
  version: '1.0.0',
  provider: undefined,
  documentationUrl: undefined,
  iconUrl: undefined,
  supportedInterfaces: [
    face('JSONRPC', base + '/rpc'),
    face('HTTP+JSON', base + '/rest'),
    face('GRPC', `127.0.0.1:${grpcPort}`),
  ],
  capabilities: {
    streaming: true,
    pushNotifications: false,
    extensions: [],
    extendedAgentCard: false,
  },
  securitySchemes: {},
  securityRequirements: [],
  signatures: [],
  defaultInputModes: ['text/plain'],
  defaultOutputModes: ['text/plain'],
  skills: [
    {
      id: 'echo',
      name: 'echo',
      description: 'echo',
      tags: ['echo'],
      examples: [],
      inputModes: [],
      outputModes: [],
      securityRequirements: [],
    },
  ],
};
const part = (value) => ({
  content: { $case: 'text', value },
  metadata: undefined,
  filename: '',
  mediaType: '',
});
const at = (state) => ({ state, message: undefined, timestamp: new Date().toISOString() });
const artifact = (text, artifactId, name) => ({
  artifactId,
  name,
  description: '',
  parts: [part(text)],
  metadata: undefined,
  extensions: [],
});

class Echo {
  async cancelTask(_, bus) {
    bus.finished();
  }

  async execute(context, bus) {
    const text = context.userMessage.parts
      .map((p) => (p.content?.$case === 'text' ? p.content.value : ''))
      .join('');
    const ids = { taskId: context.taskId, contextId: context.contextId };
    if (text.startsWith('msg')) {
      bus.publish(
        AgentEvent.message({
          messageId: randomUUID(),
          contextId: ids.contextId,
          taskId: '',
          role: Role.ROLE_AGENT,
          parts: [part(text)],
          metadata: undefined,
          extensions: [],
          referenceTaskIds: [],
        })
      );
    } else if (/^(chunks:|hold:|full)/.test(text)) {
      this.task(context, bus, TaskState.TASK_STATE_SUBMITTED, []);
      await this.work(text, ids, bus);
    } else {
      const echo = artifact(text, randomUUID(), 'echo');
      this.task(context, bus, TaskState.TASK_STATE_COMPLETED, [echo]);
    }
    bus.finished();
  }

  task({ taskId, contextId, userMessage }, bus, state, artifacts) {
    const history = [userMessage];
    const task = { id: taskId, contextId, status: at(state), artifacts, history };
    bus.publish(AgentEvent.task({ ...task, metadata: undefined }));
  }

  async work(text, ids, bus) {
    const status = (state) =>
      bus.publish(AgentEvent.statusUpdate({ ...ids, status: at(state), metadata: undefined }));
    const chunk = (artifact, append, lastChunk) =>
      bus.publish(
        AgentEvent.artifactUpdate({ ...ids, artifact, append, lastChunk, metadata: undefined })
      );
    status(TaskState.TASK_STATE_WORKING);
    const word = text.split(/\s/)[0];
    if (word.startsWith('chunks:')) {
      const count = Number(word.slice(7));
      const id = randomUUID();
      for (let i = 0; i < count; i++) {
        chunk(artifact(`chunk ${i} of the answer`, id, 'out'), i > 0, i === count - 1);
      }
    } else if (word.startsWith('hold:')) {
      await new Promise((done) => setTimeout(done, 1000 * Number(word.slice(5))));
    } else {
      chunk(artifact(text, randomUUID(), 'echo'), false, true);
    }
    status(TaskState.TASK_STATE_COMPLETED);
  }
}

const requestHandler = new DefaultRequestHandler(card, new InMemoryTaskStore(), new Echo());
const open = { requestHandler, userBuilder: UserBuilder.noAuthentication };
const app = express();
app.use('/.well-known/agent-card.json', agentCardHandler({ agentCardProvider: requestHandler }));
app.use('/rpc', jsonRpcHandler(open));
app.use('/rest', restHandler(open));
const server = new grpc.Server();
server.addService(A2AService, grpcService(open));
await new Promise((done, failed) =>
  server.bindAsync(`127.0.0.1:${grpcPort}`, grpc.ServerCredentials.createInsecure(), (error) =>
    error ? failed(error) : done()
  )
);
app.listen(port, '127.0.0.1');
