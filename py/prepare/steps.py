"""One step of the preparation: says what it does, and is skipped when nothing has changed."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

__all__ = [
    "BUILD",
    "ROOT",
    "SetupError",
    "apt_install",
    "digest",
    "exclusive",
    "run",
    "say",
    "step",
]

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build"


class SetupError(Exception):
    """The preparation cannot go on; the text says what to do."""


def say(text: str) -> None:
    print(f"prepare: {text}", flush=True)


@contextmanager
def exclusive() -> Iterator[None]:
    """Waits for any other preparation of this checkout to end."""
    BUILD.mkdir(exist_ok=True)
    with (BUILD / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def digest(*parts: object) -> str:
    """Of texts and, for paths, of file contents; a folder counts with all files below it."""
    total = hashlib.sha256()
    for part in parts:
        if not isinstance(part, Path):
            total.update(f"{part}\0".encode())
            continue
        files = sorted(part.rglob("*")) if part.is_dir() else [part]
        for file in files:
            if file.is_file() and "__pycache__" not in file.parts:
                total.update(f"{file.relative_to(part)}\0".encode())
                total.update(file.read_bytes())
    return total.hexdigest()


def step(
    what: str, make: Callable[[], object], *, inputs: Sequence[object], outputs: Sequence[Path]
) -> bool:
    """Call `make` unless `outputs` exist and were made from the same `inputs` (see `digest`)."""
    stamp = BUILD / "stamps" / "".join(c if c.isalnum() else "-" for c in what)
    now = digest(*inputs)
    if all(o.exists() for o in outputs) and stamp.is_file() and stamp.read_text() == now:
        return False
    say(f"{what} ...")
    start = time.monotonic()
    stamp.unlink(missing_ok=True)
    make()
    missing = [str(o) for o in outputs if not o.exists()]
    if missing:
        raise SetupError(f"{what}: made no {', '.join(missing)}")
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.write_text(now)
    say(f"{what}: done in {time.monotonic() - start:.1f} s")
    return True


def run(
    *command: str | Path, env: Mapping[str, str] | None = None, cwd: Path = ROOT, hint: str = ""
) -> str:
    """A command's output, without the terminal; a failure shows the end of it, and the hint."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words,
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        tail = "\n".join(line[:300] for line in done.stdout.splitlines()[-30:])
        raise SetupError("\n".join(filter(None, [f"$ {' '.join(words)}", tail, hint])))
    return done.stdout


def apt_install(*packages: str) -> None:
    """Install Debian packages; where that cannot be done, says the command to run."""
    command = f"apt-get install -y --no-install-recommends {' '.join(packages)}"
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise SetupError(f"needs Debian packages; run as root: {command}")
    say(command)
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    run("apt-get", "-qq", "update", env=quiet)
    run(*command.split(), "-qq", env=quiet)
