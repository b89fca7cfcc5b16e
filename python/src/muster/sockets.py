"""Paths of the daemon's socket, as the program `muster` finds them.

Named by the caller or `MUSTER_SOCKET`; else that of this user's own daemon; else that of the daemon which all
users of the machine share.
"""

from __future__ import annotations

import os
import stat
from typing import List, Optional

from muster.errors import Refused, UsageError

SHARED = "/run/muster/muster.sock"


def candidates(named: Optional[str]) -> List[str]:
    """Returns the sockets to try, in order.

    Raises `Refused` where another user could have put a socket in the place of this user's own.
    """
    if named is not None:
        return [named]
    own = personal()
    directory = os.path.dirname(own)
    if os.path.lexists(directory) and not _is_private(directory):
        raise Refused(
            f"{directory} does not belong to you alone, so a daemon there cannot be trusted",
            hints=["remove it, or set MUSTER_HOME to a directory of your own"],
            code="forbidden",
        )
    return [own, SHARED]


def personal() -> str:
    """Returns the path of the socket of this user's own daemon."""
    home = _absolute("MUSTER_HOME")
    if home is not None:
        return os.path.join(home, "run", "muster.sock")
    runtime = _absolute("XDG_RUNTIME_DIR")
    if runtime is not None and _is_own_directory(runtime):
        return os.path.join(runtime, "muster", "muster.sock")
    return f"/tmp/muster-{os.geteuid()}/muster.sock"


def _is_private(directory: str) -> bool:
    """Returns whether this is a directory of this user that no other user can write to."""
    found = os.lstat(directory)
    is_own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    return is_own and not found.st_mode & 0o022


def _is_own_directory(path: str) -> bool:
    try:
        found = os.stat(path)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _absolute(variable: str) -> Optional[str]:
    value = os.environ.get(variable) or None
    if value is not None and not os.path.isabs(value):
        raise UsageError(f"{variable} must be an absolute path, not {value}", code="usage")
    return value
