// An identity provider: oidc-provider, which is certified for OpenID Connect.
//
//     node oidc_server.mjs PORT [PEM CA]
//
// With a certificate it speaks TLS and asks for those of clients. Prints "ready" when it answers.
//
// Clients: person (public: device code and browser on any loopback port), machine (client
// credentials by HTTP Basic); with a certificate instead of that poster (the same by form) and cert
// (by its certificate, to which tokens are bound). Access tokens are JWTs for https://agent.example, for 60 seconds; refresh
// tokens rotate. The pages for signing in take any name and password.
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { Provider } from 'oidc-provider';

const [port, pem, ca] = process.argv.slice(2);
const issuer = `${pem ? 'https' : 'http'}://127.0.0.1:${port}`;
const machine = { grant_types: ['client_credentials'], redirect_uris: [], response_types: [] };
const device = 'urn:ietf:params:oauth:grant-type:device_code';

const basic = { client_id: 'machine', client_secret: 'machine secret+', ...machine };
const poster = {
  client_id: 'poster',
  client_secret: 'poster-secret',
  token_endpoint_auth_method: 'client_secret_post',
  ...machine,
};
const cert = {
  client_id: 'cert',
  token_endpoint_auth_method: 'tls_client_auth',
  tls_client_auth_subject_dn: 'CN=client',
  tls_client_certificate_bound_access_tokens: true,
  ...machine,
};

const provider = new Provider(issuer, {
  clients: [
    ...(pem ? [poster, cert] : [basic]),
    {
      client_id: 'person',
      application_type: 'native',
      token_endpoint_auth_method: 'none',
      grant_types: ['authorization_code', 'refresh_token', device],
      redirect_uris: ['http://127.0.0.1/callback', 'http://localhost/callback'],
      response_types: ['code'],
    },
  ],
  ...(pem && {
    clientAuthMethods: ['client_secret_post', 'none', 'tls_client_auth'],
  }),
  features: {
    clientCredentials: { enabled: true },
    deviceFlow: { enabled: true },
    introspection: { enabled: true },
    mTLS: {
      enabled: Boolean(pem),
      certificateBoundAccessTokens: true,
      tlsClientAuth: true,
      getCertificate: (ctx) => ctx.socket.getPeerX509Certificate?.(),
      certificateAuthorized: (ctx) => ctx.socket.authorized,
      certificateSubjectMatches: (ctx, property, expected) =>
        property === 'tls_client_auth_subject_dn' &&
        ctx.socket.getPeerX509Certificate().subject === expected,
    },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => 'https://agent.example',
      useGrantedResource: () => true,
      getResourceServerInfo: () => ({
        scope: 'use admin',
        accessTokenFormat: 'jwt',
        accessTokenTTL: 60,
        audience: 'https://agent.example',
      }),
    },
    revocation: { enabled: true },
  },
  issueRefreshToken: async (ctx, client) => client.grantTypeAllowed('refresh_token'),
  pkce: { required: () => true },
  rotateRefreshToken: true,
  scopes: ['openid', 'offline_access', 'use', 'admin'],
});
provider.on('server_error', (ctx, error) => console.error(error));

const tls = pem && {
  key: readFileSync(pem),
  cert: readFileSync(pem),
  ca: readFileSync(ca),
  requestCert: true,
  rejectUnauthorized: false,
};
const server = tls ? createTlsServer(tls, provider.callback()) : createServer(provider.callback());
server.listen(Number(port), '127.0.0.1', () => console.log('ready'));
