"""Running PostgreSQL although we are root: as an ordinary user, on a place that this user can reach.

PostgreSQL refuses to run as root. The user it runs as must be able to execute the binaries and to enter the data
folder, but a virtual environment or a chosen folder may lie below one that only root may enter (/root has mode
0700). Permissions of folders that are not ours are left alone; instead the binaries are copied, or the data
folder is created, in a system place made for that: /var/cache and /var/lib, or the temporary folder.
"""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from streams.local.errors import UnprivilegedUserError
from streams.local.service import Identity

USER = "nobody"
# Generous: a loaded machine may take long to start even a small program.
PROBE_TIMEOUT_S = 60
CACHES = (Path("/var/cache/playhead"),)
DATA = (Path("/var/lib/playhead"),)


@dataclass(frozen=True, slots=True)
class Placement:
    """Where PostgreSQL's programs and data are, and who runs it (None: we ourselves)."""

    programs: Path
    data: Path
    user: Identity | None


def place(folder: Path, package: Path, version: str, user_name: str = USER) -> Placement:
    """Decide where to run. `package` is the wheel's folder, `folder` the one chosen for this server.

    The same folder gives the same place every time: a data folder outside is noted in `folder`/location.
    Raises UnprivilegedUserError.
    """
    programs = package / "pginstall" / "bin"
    if os.geteuid() != 0:
        return Placement(programs, folder / "data", None)
    try:
        entry = pwd.getpwnam(user_name)
    except KeyError:
        raise UnprivilegedUserError(f"there is no user {user_name!r}") from None
    user = Identity(entry.pw_name, entry.pw_uid, entry.pw_gid)
    if not _can(user, str(programs / "postgres"), "--version"):
        programs = _copy(package, version, user) / "pginstall" / "bin"
    return Placement(programs, _data_folder(folder, user), user)


def temporary_folder(prefix: str) -> Path:
    """A new temporary folder that only its owner can list, but other users can pass through when we are root."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    if os.geteuid() == 0:
        folder.chmod(0o711)
    return folder


def external_data(folder: Path) -> Path | None:
    """The folder outside `folder` that holds its data, if there is one: to be deleted together with it."""
    try:
        return Path((folder / "location").read_text("utf-8")).parent
    except FileNotFoundError:
        return None


def _data_folder(folder: Path, user: Identity) -> Path:
    note = folder / "location"
    if note.exists():
        return Path(note.read_text("utf-8"))
    if (folder / "data").exists() or _can(user, "/bin/sh", "-c", 'cd "$1"', "sh", str(folder)):
        return folder / "data"
    for base in (*DATA, Path(tempfile.gettempdir())):
        try:
            base.mkdir(mode=0o755, parents=True, exist_ok=True)
            # A random name of our own making: nobody can have prepared it.
            outside = Path(tempfile.mkdtemp(prefix="playhead-postgres-", dir=base))
        except OSError:
            continue
        outside.chmod(0o711)
        if _can(user, "/bin/sh", "-c", 'cd "$1"', "sh", str(outside)):
            (outside / "belongs-to").write_text(str(folder.absolute()), "utf-8")
            note.write_text(str(outside / "data"), "utf-8")
            return outside / "data"
        shutil.rmtree(outside)
    raise UnprivilegedUserError(
        f"{user.name} may not enter {folder} (see the permissions of the folders above it), "
        f"nor any of {', '.join(map(str, (*DATA, tempfile.gettempdir())))}"
    )


def _copy(package: Path, version: str, user: Identity) -> Path:
    """The wheel's programs at a place that the user can reach; made once per version, used by all folders."""
    libraries = package.with_name(package.name + ".libs")
    for base in (*CACHES, Path(tempfile.gettempdir()) / "playhead-cache"):
        target = base / f"postgresql-{version}"
        try:
            base.mkdir(mode=0o755, parents=True, exist_ok=True)
            if not _only_root_writes(base):
                continue
            if not target.exists():
                with tempfile.TemporaryDirectory(dir=base) as scratch:
                    copy = Path(scratch) / "copy"
                    shutil.copytree(
                        package, copy / package.name, ignore=shutil.ignore_patterns("include", "__pycache__")
                    )
                    if libraries.is_dir():
                        shutil.copytree(libraries, copy / libraries.name)
                    _readable_for_all(copy)
                    os.rename(copy, target)
        except FileExistsError:
            pass  # another process was faster
        except OSError:
            if not target.exists():
                continue
        programs = target / package.name / "pginstall" / "bin"
        if _can(user, str(programs / "postgres"), "--version"):
            return target / package.name
    raise UnprivilegedUserError(
        f"{user.name} can't execute the programs in {package}, and they could not be copied to "
        f"{', '.join(map(str, (*CACHES, tempfile.gettempdir())))}"
    )


def _only_root_writes(folder: Path) -> bool:
    """Whether nobody but root could have put something there: what lies there is executed."""
    status = folder.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == 0 and not status.st_mode & 0o022


def _readable_for_all(root: Path) -> None:
    for path in (root, *root.rglob("*")):
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(0o755 if path.is_dir() or mode & 0o100 else 0o644)


def _can(user: Identity, *arguments: str) -> bool:
    # Asking the system is the only sure answer: mode bits, access lists, mount options and security modules
    # all have a say.
    try:
        done = subprocess.run(
            arguments,
            user=user.uid,
            group=user.gid,
            extra_groups=[],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=PROBE_TIMEOUT_S,
            check=False,
        )
    except PermissionError as error:
        if error.filename is None:
            raise UnprivilegedUserError(f"this process may not change to user {user.name}: {error}") from error
        return False
    return done.returncode == 0
