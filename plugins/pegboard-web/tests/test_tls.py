"""Pages over TLS: certificates are verified by the host's name, although the connection goes to an address."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PEM = Path(__file__).with_name("shop.pem")  # a certificate of shop.example with its key, made for this test
PROGRAM = """
import asyncio, socket, ssl, sys, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pegboard import ToolContext
from pegboard_web import Settings
from pegboard_web.fetch import Fetcher

host, pem = sys.argv[1:]
names = []

class Page(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        self.send_response(200)
        self.send_header("content-type", "text/plain")
        self.end_headers()
        self.wfile.write(self.headers["host"].encode())

server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
tls.load_cert_chain(pem)
tls.sni_callback = lambda _socket, name, _context: names.append(name)
server.socket = tls.wrap_socket(server.socket, server_side=True)
threading.Thread(target=server.serve_forever, daemon=True).start()

real = socket.getaddrinfo
def find(name, *arguments, **named):
    return real("127.0.0.1" if str(name).endswith("example") else name, *arguments, **named)
socket.getaddrinfo = find

fetcher = Fetcher(Settings(allow=("127.0.0.1",)))
try:
    page = asyncio.run(fetcher.fetch(f"https://{host}:{server.server_port}/", ToolContext()))
    print(names, page.text.rpartition(":")[0])
except Exception as error:
    print(names, error)
"""


def run(host, **environment):
    command = [sys.executable, "-c", PROGRAM, host, str(PEM)]
    environment = {**os.environ, **environment}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=environment)
    return done.stdout.strip()


@pytest.mark.slow
def test_tls_has_the_name_of_the_host():
    assert run("shop.example", SSL_CERT_FILE=str(PEM)) == "['shop.example'] shop.example"


@pytest.mark.slow
@pytest.mark.parametrize(("host", "trusted"), [("other.example", True), ("shop.example", False)])
def test_a_certificate_that_isnt_valid_is_refused(host, trusted):
    said = run(host, **({"SSL_CERT_FILE": str(PEM)} if trusted else {}))
    assert "the certificate of its server isn't valid" in said
