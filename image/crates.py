"""Which crates cargo links into each program, and the list of them inside the program.

The list is in the section .dep-v0, in the format of cargo-auditable, which scanners of images read. cargo-auditable itself is
not used: it lists what the whole workspace with its tests could need, such as procedural macros, and scanners would report those.
"""

import json
import os
import re
import subprocess
import tempfile
import tomllib
import zlib

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# A build script puts the files of this crate into `docket`: no program links it, but one contains it.
EMBEDDED = {"utoipa-swagger-ui": "utoipa-swagger-ui-vendored"}
SECTION = ".dep-v0"

Crate = tuple[str, str]  # name and version


def graph(package: str, compiled: list[str]) -> dict[Crate, set[Crate]]:
    """The crates of one program, each with those that it uses. `compiled` are all packages of the same run of cargo: it
    unites their features."""
    triple = next(line.split()[1] for line in run("rustc", "-vV").splitlines() if line.startswith("host:"))
    command = ["cargo", "tree", "--locked", "--edges=normal,no-proc-macro", "--prefix=depth", "--format= {p}", f"--target={triple}"]
    edges: dict[Crate, set[Crate]] = {}
    above: list[Crate] = []
    for line in run(*command, *(f"--package={name}" for name in compiled)).splitlines():
        if not (found := re.match(r"(\d+) (\S+) v(\S+)", line)):
            continue  # an empty line between two programs
        depth, crate = int(found[1]), (found[2], found[3])
        edges.setdefault(crate, set())
        above[depth:] = [crate]
        if depth:
            edges[above[depth - 1]].add(crate)
    for user, embedded in EMBEDDED.items():
        for crate in [crate for crate in edges if crate[0] == user]:
            [contained] = [other for other in locked() if other[0] == embedded]
            edges[crate].add(contained)
            edges[contained] = set()
    reached, waiting = set(), [root(edges, package)]
    while waiting:
        crate = waiting.pop()
        if crate not in reached:
            reached.add(crate)
            waiting += edges[crate]
    return {crate: edges[crate] for crate in sorted(reached)}


def root(edges: dict[Crate, set[Crate]], package: str) -> Crate:
    return next(crate for crate in edges if crate[0] == package)


def locked() -> dict[Crate, str]:
    """The crates of others in Cargo.lock, with their checksums."""
    with open(os.path.join(ROOT, "Cargo.lock"), "rb") as file:
        packages = tomllib.load(file)["package"]
    return {(package["name"], package["version"]): package["checksum"] for package in packages if "checksum" in package}


def embed(path: str, out: str, package: str, compiled: list[str]) -> None:
    """Copies a program, with the list of its crates."""
    edges, foreign = graph(package, compiled), locked()
    place = {crate: number for number, crate in enumerate(edges)}
    packages = []
    for crate, uses in edges.items():
        packages.append({"name": crate[0], "version": crate[1], "source": "crates.io" if crate in foreign else "local"})
        if uses:
            packages[-1]["dependencies"] = sorted(place[other] for other in uses)
        if crate == root(edges, package):
            packages[-1]["root"] = True
    with tempfile.NamedTemporaryFile() as file:
        file.write(zlib.compress(json.dumps({"packages": packages}, separators=(",", ":")).encode(), 9))
        file.flush()
        subprocess.run(["objcopy", f"--add-section={SECTION}={file.name}", path, out], check=True)


def embedded(program: bytes) -> dict | None:
    """The list inside a program: a 64-bit little-endian ELF file."""
    def number(at: int, size: int) -> int:
        return int.from_bytes(program[at:at + size], "little")

    sections, size, count, names = number(40, 8), number(58, 2), number(60, 2), number(62, 2)
    strings = number(sections + size * names + 24, 8)
    for header in range(sections, sections + size * count, size):
        start = strings + number(header, 4)
        if program[start:program.index(b"\0", start)] == SECTION.encode():
            offset = number(header + 24, 8)
            return json.loads(zlib.decompress(program[offset:offset + number(header + 32, 8)]))
    return None


def run(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
