// A server made with the official JavaScript SDK, over all its transports.
//
//     node sdk_server.mjs PORT GRPC_PORT
//
// Prints "ready" when it answers. agents.md beside this file lists what a message's first word does.
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
  name: 'words',
  description: 'does what the first word says',
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
      id: 'words',
      name: 'words',
      description: 'words',
      tags: ['words'],
      examples: [],
      inputModes: [],
      outputModes: [],
      securityRequirements: [],
    },
  ],
};

const part = ($case, value, more = {}) => ({
  content: { $case, value },
  metadata: undefined,
  filename: '',
  mediaType: '',
  ...more,
});
const text = (value, more) => part('text', value, more);

// One turn of one task: what the words below speak to.
class Turn {
  constructor(context, bus) {
    this.context = context;
    this.bus = bus;
    this.ids = { taskId: context.taskId, contextId: context.contextId };
  }

  message(value) {
    return {
      ...this.ids,
      messageId: randomUUID(),
      role: Role.ROLE_AGENT,
      parts: [text(value)],
      metadata: undefined,
      extensions: [],
      referenceTaskIds: [],
    };
  }

  status(state, words) {
    const message = words === undefined ? undefined : this.message(words);
    const status = { state, message, timestamp: new Date().toISOString() };
    this.bus.publish(AgentEvent.statusUpdate({ ...this.ids, status, metadata: undefined }));
  }

  artifact(parts, { name = '', id = randomUUID(), append = false, last = true } = {}) {
    const artifact = {
      artifactId: id,
      name,
      description: '',
      parts,
      metadata: undefined,
      extensions: [],
    };
    const update = { ...this.ids, artifact, append, lastChunk: last, metadata: undefined };
    this.bus.publish(AgentEvent.artifactUpdate(update));
  }

  complete() {
    this.status(TaskState.TASK_STATE_COMPLETED);
  }
}

const words = {
  echo(turn) {
    turn.artifact(turn.context.userMessage.parts, { name: 'echo' });
    turn.complete();
  },
  chunks(turn, rest) {
    const id = randomUUID();
    const count = Number(rest);
    for (let i = 0; i < count; i++) {
      turn.artifact([text(`${i} `)], { id, append: i > 0, last: i === count - 1 });
    }
    turn.complete();
  },
  ask(turn) {
    turn.status(TaskState.TASK_STATE_INPUT_REQUIRED, 'which colour?');
  },
  answer(turn, rest) {
    turn.artifact([text('you chose ' + rest)], { name: 'answer' });
    turn.complete();
  },
  fail(turn, rest) {
    turn.status(TaskState.TASK_STATE_FAILED, 'it broke: ' + rest);
  },
  reject(turn) {
    turn.status(TaskState.TASK_STATE_REJECTED, 'not for me');
  },
  files(turn) {
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
    turn.artifact([text('# Report', { mediaType: 'text/markdown' })], { name: 'a' });
    const picture = part('raw', bytes, { mediaType: 'image/png', filename: 'dot.png' });
    turn.artifact([picture], { name: 'b' });
    const link = part('url', 'https://h.example/?a=1&b=<2>', { mediaType: 'text/html' });
    turn.artifact([link], { name: 'c' });
    turn.complete();
  },
  data(turn) {
    const value = { n: 1, f: 0.5, list: [1, 'two', null], deep: { ü: '東京 😀' } };
    turn.artifact([part('data', value)], { name: 'data' });
    turn.complete();
  },
  async hold(turn, rest) {
    const until = Date.now() + 1000 * Number(rest);
    while (Date.now() < until && !canceled.has(turn.ids.taskId)) {
      await new Promise((done) => setTimeout(done, 20));
    }
    turn.status(
      canceled.has(turn.ids.taskId)
        ? TaskState.TASK_STATE_CANCELED
        : TaskState.TASK_STATE_COMPLETED
    );
  },
};
const canceled = new Set();

class Words {
  async cancelTask(taskId) {
    canceled.add(taskId);
  }

  async execute(context, bus) {
    const said = context.userMessage.parts
      .map((p) => (p.content?.$case === 'text' ? p.content.value : ''))
      .join('\n');
    let [word] = said.split(' ', 1);
    let rest = said.slice(word.length + 1);
    const turn = new Turn(context, bus);
    if (word === 'msg') {
      bus.publish(AgentEvent.message({ ...turn.message(rest), taskId: '' }));
      bus.finished();
      return;
    }
    if (context.task) {
      [word, rest] = ['answer', said];
    } else {
      const status = {
        state: TaskState.TASK_STATE_SUBMITTED,
        message: undefined,
        timestamp: new Date().toISOString(),
      };
      const task = {
        id: context.taskId,
        contextId: context.contextId,
        status,
        artifacts: [],
        history: [context.userMessage],
        metadata: undefined,
      };
      bus.publish(AgentEvent.task(task));
    }
    turn.status(TaskState.TASK_STATE_WORKING);
    await (Object.hasOwn(words, word) ? words[word] : words.echo)(turn, rest);
    bus.finished();
  }
}

const requestHandler = new DefaultRequestHandler(card, new InMemoryTaskStore(), new Words());
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
app.listen(port, '127.0.0.1', () => console.log('ready'));
