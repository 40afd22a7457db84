"""TLS in front of the plain receivers of the tests.

usage: receiver_tls.py CERTIFICATE KEY
A line with a port on standard input opens a TLS port that leads to that plain one on loopback; its number is the answer
on standard output. Ends with its standard input.
"""

import asyncio
import ssl
import sys


async def pump(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


def to(port):
    async def serve(reader, writer):
        try:
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.transport.abort()
            return
        await asyncio.gather(pump(reader, inner_writer), pump(inner_reader, writer))

    return serve


async def main(certificate, key):
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda *_: None)  # a sender that was killed is no news
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        server = await asyncio.start_server(to(int(line)), "127.0.0.1", 0, ssl=tls, backlog=1024)
        print(server.sockets[0].getsockname()[1], flush=True)
        SERVERS.append(server)


SERVERS = []
asyncio.run(main(*sys.argv[1:]))
