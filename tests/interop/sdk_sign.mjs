// The official JavaScript SDK signing and verifying agent cards: what sdk_sign.py beside it does.
// Cards are plain JSON: the SDK loses the security schemes of the instances that it makes itself.
import { createPrivateKey } from 'node:crypto';
import { createInterface } from 'node:readline';
import { generateAgentCardSignature, verifyAgentCardSignature } from '@a2a-js/sdk';

async function sign(request) {
  const signer = generateAgentCardSignature(createPrivateKey(request.pem), request.header);
  return await signer(request.sign);
}

async function verify(request) {
  const keys = Object.fromEntries(request.jwks.keys.map((jwk) => [jwk.kid, jwk]));
  try {
    await verifyAgentCardSignature(async (kid) => keys[kid])(request.verify);
    return 'ok';
  } catch (error) {
    return error.constructor.name;
  }
}

console.debug = console.log = console.error; // the SDK tells of each signature that is none
for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  const answer = await (request.sign ? sign : verify)(request);
  process.stdout.write(JSON.stringify(answer) + '\n');
}
