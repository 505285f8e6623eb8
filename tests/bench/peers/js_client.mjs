// The official JavaScript SDK's client: read the card, send one message, print. Arguments: URL.
import { randomUUID } from 'node:crypto';
import { Role } from '@a2a-js/sdk';
import { ClientFactory } from '@a2a-js/sdk/client';

const client = await new ClientFactory().createFromUrl(process.argv[2]);
const part = {
  content: { $case: 'text', value: 'hello cold' },
  metadata: undefined,
  filename: '',
  mediaType: '',
};
const message = {
  messageId: randomUUID(),
  contextId: '',
  taskId: '',
  role: Role.ROLE_USER,
  parts: [part],
  metadata: undefined,
  extensions: [],
  referenceTaskIds: [],
};
const answer = await client.sendMessage({
  tenant: '',
  metadata: undefined,
  configuration: undefined,
  message,
});
console.log(answer.artifacts[0].parts[0].content.value);
process.exit(0);
