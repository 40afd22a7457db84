"""An SMTP server that keeps the messages it gets.

usage: mail_server.py FOLDER [CERTIFICATE KEY USER PASSWORD]
Prints its port, and writes each message to a file in FOLDER. With a certificate, it speaks TLS from the first byte and
wants the user and the password. A line on standard input changes its reply to a message: `250 OK`, `451 later`, or `silence` for
none; `lost` keeps the message and closes the connection instead of a reply. `lost only ADDRESS` does so for one address. Ends with its
standard input.
"""

import asyncio
import ssl
import sys
from pathlib import Path

from aiosmtpd.smtp import SMTP, AuthResult


class Keeper:
    def __init__(self, folder):
        self.folder, self.count, self.reply = Path(folder), 0, "250 OK"

    async def handle_DATA(self, server, session, envelope):
        reply, _, only = self.reply.partition(" only ")
        if only and only not in envelope.rcpt_tos:
            reply = "250 OK"
        if reply == "silence":
            await asyncio.sleep(3600)
        if reply.startswith("2") or reply == "lost":
            self.count += 1
            name = f"{self.count:04}.eml"
            text = f"X-Envelope-From: {envelope.mail_from}\r\nX-Envelope-To: {' '.join(envelope.rcpt_tos)}\r\n".encode() + envelope.content
            (self.folder / f".{name}").write_bytes(text)
            (self.folder / f".{name}").rename(self.folder / name)
        if reply == "lost":
            server.transport.abort()
            return "421 gone"
        return reply


async def main(folder, certificate=None, key=None, user=None, password=None):
    keeper, context, options = Keeper(folder), None, {}
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)

        def authenticate(server, session, envelope, mechanism, data):
            right = data.login == user.encode() and data.password == password.encode()
            return AuthResult(success=right, handled=False)

        # The connection is encrypted already, which the library takes for a lack of STARTTLS.
        options = {"authenticator": authenticate, "auth_required": True, "auth_require_tls": False}
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda *_: None)  # a sender that was killed is no news
    make = lambda: SMTP(keeper, hostname="mail.test", loop=loop, **options)
    server = await loop.create_server(make, "127.0.0.1", 0, ssl=context)
    print(server.sockets[0].getsockname()[1], flush=True)
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        keeper.reply = line.strip()
        print("changed", flush=True)


asyncio.run(main(*sys.argv[1:]))
