"""OCI layouts as folders: what release/push gives to a registry, byte by byte."""

import json
import os
import shutil
import sys
import tarfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "image"))
import archive  # noqa: E402

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"


class Layout:
    """Blobs, and the one manifest or index that a registry is given."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}

    def add(self, media_type: str, data: bytes | dict) -> dict:
        """Adds a blob, JSON if it is a dict, and returns its descriptor."""
        data = archive.json_bytes(data) if isinstance(data, dict) else data
        described = archive.descriptor(media_type, data)
        self.blobs[described["digest"]] = data
        return described

    def manifest(self, config: dict, layers: list[dict], annotations: dict[str, str]) -> dict:
        return self.add(MANIFEST, {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers,
                                   "annotations": annotations})

    def write(self, folder: str, root: dict) -> None:
        """Writes the layout; an older one in that folder goes."""
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(os.path.join(folder, "blobs/sha256"))
        for digest, data in self.blobs.items():
            put(os.path.join(folder, "blobs", digest.replace(":", "/")), data)
        put(os.path.join(folder, "oci-layout"), archive.json_bytes({"imageLayoutVersion": "1.0.0"}))
        put(os.path.join(folder, "index.json"), archive.json_bytes({"schemaVersion": 2, "mediaType": INDEX, "manifests": [root]}))


def read(folder: str) -> tuple[Layout, dict]:
    """A layout from its folder, and the descriptor of its root. Every blob must be what its name says."""
    layout = Layout()
    with open(os.path.join(folder, "index.json"), "rb") as file:
        [root] = json.load(file)["manifests"]
    for name in os.listdir(os.path.join(folder, "blobs/sha256")):
        with open(os.path.join(folder, "blobs/sha256", name), "rb") as file:
            data = file.read()
        if archive.digest(data) != name:
            sys.exit(f"{folder}/blobs/sha256/{name}: the content has another digest; build the release again")
        layout.blobs[f"sha256:{name}"] = data
    return layout, root


def of_image(layout: Layout, tar: str) -> dict:
    """Adds the image that image/build wrote, with its layers compressed. Returns the descriptor, with the platform."""
    with tarfile.open(tar) as file:
        def blob(digest: str) -> bytes:
            return file.extractfile("blobs/" + digest.replace(":", "/")).read()

        [described] = json.load(file.extractfile("index.json"))["manifests"]
        manifest = json.loads(blob(described["digest"]))
        config = blob(manifest["config"]["digest"])
        layers = [layout.add(f"{layer['mediaType']}+gzip", archive.gzip(blob(layer["digest"]))) for layer in manifest["layers"]]
    image = json.loads(config)
    labels = image["config"]["Labels"]
    named = layout.manifest(layout.add(manifest["config"]["mediaType"], config), layers, labels)
    return named | {"platform": {"architecture": image["architecture"], "os": image["os"]}}


def put(path: str, data: bytes, mode: int = 0o644) -> None:
    with open(path, "wb") as file:
        file.write(data)
    os.chmod(path, mode)
