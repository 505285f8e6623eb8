// The official JavaScript SDK's client, driven from outside. Arguments, input and output are those
// of sdk_client.py beside this file; over HTTP, Node.js itself reads NODE_EXTRA_CA_CERTS.
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import grpc from '@grpc/grpc-js';
import * as sdk from '@a2a-js/sdk';
import {
  ClientFactory,
  ClientFactoryOptions,
  JsonRpcTransportFactory,
  RestTransportFactory,
} from '@a2a-js/sdk/client';
import { GrpcTransportFactory } from '@a2a-js/sdk/client/grpc';

// operation: [request message, method of the client, answer message, is the answer a stream?]
const OPERATIONS = {
  SendMessage: ['SendMessageRequest', 'sendMessage', null, false],
  SendStreamingMessage: ['SendMessageRequest', 'sendMessageStream', 'StreamResponse', true],
  GetTask: ['GetTaskRequest', 'getTask', 'Task', false],
  ListTasks: ['ListTasksRequest', 'listTasks', 'ListTasksResponse', false],
  CancelTask: ['CancelTaskRequest', 'cancelTask', 'Task', false],
  SubscribeToTask: ['SubscribeToTaskRequest', 'resubscribeTask', 'StreamResponse', true],
  CreateTaskPushNotificationConfig: [
    'TaskPushNotificationConfig',
    'createTaskPushNotificationConfig',
    'TaskPushNotificationConfig',
    false,
  ],
  GetTaskPushNotificationConfig: [
    'GetTaskPushNotificationConfigRequest',
    'getTaskPushNotificationConfig',
    'TaskPushNotificationConfig',
    false,
  ],
  ListTaskPushNotificationConfigs: [
    'ListTaskPushNotificationConfigsRequest',
    'listTaskPushNotificationConfig',
    'ListTaskPushNotificationConfigsResponse',
    false,
  ],
  DeleteTaskPushNotificationConfig: [
    'DeleteTaskPushNotificationConfigRequest',
    'deleteTaskPushNotificationConfig',
    null,
    false,
  ],
  GetExtendedAgentCard: ['GetExtendedAgentCardRequest', 'getAgentCard', 'AgentCard', false],
};

const [url, transport, operation, params] = process.argv.slice(2);
const { PEER_CA, PEER_CERT } = process.env;
const ours = PEER_CERT ? readFileSync(PEER_CERT) : null;
const grpcChannelCredentials = PEER_CA
  ? grpc.credentials.createSsl(readFileSync(PEER_CA), ours, ours)
  : undefined;
const factories = {
  JSONRPC: new JsonRpcTransportFactory(),
  'HTTP+JSON': new RestTransportFactory(),
  GRPC: new GrpcTransportFactory({ grpcChannelCredentials }),
};

function say(fields) {
  process.stdout.write(JSON.stringify(fields) + '\n');
}

// SendMessage gives a Message or a Task without its wrapper.
function unwrapped(answer) {
  if (answer === undefined || answer === null) return null;
  return answer.messageId
    ? { message: sdk.Message.toJSON(answer) }
    : { task: sdk.Task.toJSON(answer) };
}

async function call(client, id, name, input) {
  try {
    if (!Object.hasOwn(OPERATIONS, name)) throw new TypeError(`no operation ${name}`);
    const [request, method, answer, streams] = OPERATIONS[name];
    const write = answer ? sdk[answer].toJSON : unwrapped;
    const result = client[method](method === 'getAgentCard' ? undefined : sdk[request].fromJSON(input));
    if (streams) {
      for await (const event of result) say({ id, result: write(event) });
    } else {
      say({ id, result: write(await result) });
    }
    say({ id, end: true });
  } catch (error) {
    const type = error.name && error.name !== 'Error' ? error.name : error.constructor.name;
    say({ id, error: { type, message: String(error.message) } });
  }
}

// Signs in with the key of PEER_API_KEY as the card asks for it.
const signingIn = {
  async before({ agentCard, options }) {
    for (const { scheme } of Object.values(agentCard.securitySchemes)) {
      if (scheme.$case === 'apiKeySecurityScheme') {
        options.serviceParameters[scheme.value.name] = process.env.PEER_API_KEY;
      }
    }
  },
  async after() {},
};
const options = ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {
  transports: [factories[transport]],
  preferredTransports: [transport],
  clientConfig: { interceptors: process.env.PEER_API_KEY ? [signingIn] : [] },
});
const client = await new ClientFactory(options).createFromUrl(url);
if (operation) {
  await call(client, 0, operation, JSON.parse(params ?? '{}'));
  process.exit(0);
}
for await (const line of createInterface({ input: process.stdin })) {
  const { id, operation, params } = JSON.parse(line);
  call(client, id, operation, params);
}
process.exit(0);
