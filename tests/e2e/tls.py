"""TLS before a server that has none: tls.py PORT PEM [CA]. Prints its own port; with CA it wants client certificates
that CA signed. Serves until its standard input ends."""

import os
import socket
import ssl
import sys
import threading

target, pem, authority = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(pem)
if authority:
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(authority[0])


def copy(source, to):
    try:
        while data := source.recv(65536):
            to.sendall(data)
    except OSError:
        pass
    for end in (source, to):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def serve(plain):
    try:
        client = context.wrap_socket(plain, server_side=True)
        server = socket.create_connection(("127.0.0.1", target))
    except OSError:
        plain.close()
        return
    threading.Thread(target=copy, args=(server, client), daemon=True).start()
    copy(client, server)


def accept(listener):
    while True:
        plain, _ = listener.accept()
        threading.Thread(target=serve, args=(plain,), daemon=True).start()


listener = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=accept, args=(listener,), daemon=True).start()
print(listener.getsockname()[1], flush=True)
sys.stdin.read()
os._exit(0)
