"""A Debian package as bytes, without dpkg: the same files give the same bytes."""

import hashlib
import os
import sys

sys.dont_write_bytecode = True
from layout import archive  # noqa: E402

# What Debian's checker finds in it and is meant so.
OVERRIDES = """\
# A panic's backtrace names functions.
{0}: unstripped-binary-or-object
"""


def package(name: str, version: str, architecture: str, maintainer: str, description: str, files: dict, seconds: int) -> bytes:
    """`files` are archive.Entry by their path. The first line of `description` is the summary."""
    files = files | {f"usr/share/lintian/overrides/{name}": archive.Entry(OVERRIDES.format(name).encode())}
    size = sum(len(entry.content or b"") for entry in files.values())
    summary, _, long = description.partition("\n")
    control = "".join(f"{field}: {value}\n" for field, value in {
        "Package": name, "Version": version.replace("-", "~"), "Architecture": architecture, "Maintainer": maintainer,
        "Installed-Size": (size + 1023) // 1024, "Section": "net", "Priority": "optional", "Description": summary,
    }.items()) + "".join(f" {line}\n" for line in long.splitlines())
    sums = "".join(f"{hashlib.md5(entry.content).hexdigest()}  {path}\n" for path, entry in sorted(files.items()))
    of_control = {"control": archive.Entry(control.encode()), "md5sums": archive.Entry(sums.encode())}
    parts = {"debian-binary": b"2.0\n", "control.tar.gz": tar(of_control, seconds), "data.tar.gz": tar(files, seconds)}
    written = b"!<arch>\n"
    for part, data in parts.items():
        written += f"{part:<16}{seconds:<12}{0:<6}{0:<6}{100644:<8}{len(data):<10}`\n".encode() + data + b"\n" * (len(data) % 2)
    return written


def tar(files: dict, seconds: int) -> bytes:
    return archive.gzip(archive.tar({os.path.join(".", path): entry for path, entry in files.items()}, seconds))
