"""An upstream that believes X-Tollgate-Identity alone, as docs/identity.md shows it.

service.py FILE AUDIENCE ISSUER: FILE has the URL of the gateway's key set, read at the first request. Prints its port.
Answers with the claims of the caller, 401 if the token does not hold, and null for a caller without one.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import jwt

keys_file, audience, issuer = sys.argv[1:]
keys = None


def caller(token):
    global keys
    if token is None:
        return None
    if keys is None:
        with open(keys_file) as file:
            keys = jwt.PyJWKClient(file.read().strip())
    if jwt.get_unverified_header(token).get("typ") != "tollgate-identity+jwt":
        raise jwt.InvalidTokenError("not an identity token")
    return jwt.decode(
        token,
        keys.get_signing_key_from_jwt(token).key,
        algorithms=["ES256", "EdDSA", "RS256"],
        audience=audience,
        issuer=issuer,
        leeway=10,
        options={"require": ["exp", "iat", "sub"]},
    )


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        token = self.headers.get("X-Tollgate-Identity")
        try:
            status, body = 200, {"claims": caller(token), "token": token}
        except jwt.PyJWTError as error:
            status, body = 401, {"error": str(error), "token": token}
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
