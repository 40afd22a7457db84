"""A container image as one tar, made without a daemon: an OCI layout that `docker load` reads as well.

The same files give the same bytes: entries are sorted, every time is the given one, and layers are not compressed. The tool that
pushes the image compresses them, or release/build.
"""

import gzip as gzip_format
import hashlib
import io
import json
import os
import platform
import tarfile
from dataclasses import dataclass
from datetime import datetime, timezone

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass
class Entry:
    """A file of the image; a folder if `content` is None; a symbolic link if `link` is set."""

    content: bytes | None = None
    mode: int = 0o644
    owner: int = 0
    link: str | None = None


def folder(path: str) -> dict[str, Entry]:
    """All that is in a folder of this machine, by its path in the image."""
    entries = {}
    for root, _, names in os.walk(path):
        for name in names:
            full = os.path.join(root, name)
            with open(full, "rb") as file:
                mode = 0o755 if os.access(full, os.X_OK) else 0o644
                entries[os.path.relpath(full, path)] = Entry(file.read(), mode)
    return entries


def write(out: str, reference: str, config: dict, entries: dict[str, Entry], seconds: int) -> str:
    """Writes the archive and returns the image's id. `config` is the OCI image configuration: User, Entrypoint, Labels …"""
    layer = tar(entries, seconds)
    created = datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    image = {
        "created": created,
        "architecture": ARCHITECTURES[platform.machine()],
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest(layer)}"]},
        "history": [{"created": created, "created_by": "image/archive.py"}],
    }
    image_json = json_bytes(image)
    manifest = json_bytes({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": descriptor("application/vnd.oci.image.config.v1+json", image_json),
        "layers": [descriptor("application/vnd.oci.image.layer.v1.tar", layer)],
    })
    named = descriptor("application/vnd.oci.image.manifest.v1+json", manifest)
    named["annotations"] = {
        "io.containerd.image.name": _full(reference),
        "org.opencontainers.image.ref.name": reference.rsplit(":", 1)[1],
    }
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [named]}
    # For `docker load` before version 25.
    docker = [{"Config": _blob(image_json), "RepoTags": [reference], "Layers": [_blob(layer)]}]
    files = {
        "oci-layout": json_bytes({"imageLayoutVersion": "1.0.0"}),
        "index.json": json_bytes(index),
        "manifest.json": json_bytes(docker),
        **{_blob(data): data for data in (layer, image_json, manifest)},
    }
    os.makedirs(os.path.dirname(os.path.abspath(out)), exist_ok=True)
    with open(f"{out}.new", "wb") as file:
        file.write(tar({name: Entry(data) for name, data in files.items()}, seconds))
    os.rename(f"{out}.new", out)
    return f"sha256:{digest(image_json)}"


def tar(entries: dict[str, Entry], seconds: int) -> bytes:
    """A tar of these entries and of the folders that they are in."""
    whole = dict(entries)
    for path in entries:
        while path := os.path.dirname(path):
            whole.setdefault(path, Entry(mode=0o755))
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as file:
        for path in sorted(whole):
            entry = whole[path]
            info = tarfile.TarInfo(path)
            info.mtime, info.mode, info.uid, info.gid = seconds, entry.mode, entry.owner, entry.owner
            if entry.link is not None:
                info.type, info.linkname = tarfile.SYMTYPE, entry.link
                file.addfile(info)
            elif entry.content is None:
                info.type = tarfile.DIRTYPE
                file.addfile(info)
            else:
                info.size = len(entry.content)
                file.addfile(info, io.BytesIO(entry.content))
    return buffer.getvalue()


def _full(reference: str) -> str:
    """As containerd writes it: with a registry, which is docker.io where none is named."""
    parts = reference.split("/")
    if len(parts) > 1 and ("." in parts[0] or ":" in parts[0] or parts[0] == "localhost"):
        return reference
    return "docker.io/" + (reference if len(parts) > 1 else f"library/{reference}")


def gzip(data: bytes) -> bytes:
    """Compressed without a name or a time. Other versions of zlib may give other bytes."""
    buffer = io.BytesIO()
    with gzip_format.GzipFile(filename="", fileobj=buffer, mode="wb", compresslevel=6, mtime=0) as file:
        file.write(data)
    return buffer.getvalue()


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _blob(data: bytes) -> str:
    return f"blobs/sha256/{digest(data)}"


def descriptor(media_type: str, data: bytes) -> dict:
    return {"mediaType": media_type, "digest": f"sha256:{digest(data)}", "size": len(data)}


def json_bytes(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
