"""The official Python SDK signing and verifying agent cards, one request a line on standard input.

{"sign": card, "pem": private key, "header": protected header} answers the signed card,
{"verify": card, "jwks": key set, "algorithms": [...]} answers "ok" or the name of the exception.
Cards are plain JSON, as they lie on the wire.
"""

import json
import sys

from a2a.types import AgentCard
from a2a.utils.signing import create_agent_card_signer, create_signature_verifier
from google.protobuf.json_format import MessageToDict, ParseDict
from jwt import PyJWK


def sign(request):
    card = ParseDict(request["sign"], AgentCard(), ignore_unknown_fields=True)
    signed = create_agent_card_signer(request["pem"], request["header"])(card)
    return MessageToDict(signed)


def verify(request):
    keys = {jwk["kid"]: PyJWK(jwk) for jwk in request["jwks"]["keys"]}
    card = ParseDict(request["verify"], AgentCard(), ignore_unknown_fields=True)
    verifier = create_signature_verifier(lambda kid, jku: keys[kid], request["algorithms"])
    try:
        verifier(card)
    except Exception as error:
        return type(error).__name__
    return "ok"


for line in sys.stdin:
    request = json.loads(line)
    print(json.dumps((sign if "sign" in request else verify)(request)), flush=True)
