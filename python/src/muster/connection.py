"""Settings of a client: which cluster, which daemon, which program. Holds no open connection."""

from __future__ import annotations

import os
from typing import Optional, Union

from muster.place import Place, place


class Connection:
    """Base of the clients. It may be pickled, copied, and used after a fork."""

    def __init__(
        self,
        on: Optional[str] = None,
        *,
        socket: Union[str, "os.PathLike[str]", None] = None,
        binary: Union[str, "os.PathLike[str]"] = "muster",
        virtual_gpus: Union[int, str, None] = None,
    ) -> None:
        """Makes a client; nothing is asked yet.

        `on` is `local` (the daemon of this machine), `slurm`, `slurm@HOST`, `kubernetes` or
        `kubernetes@CONTEXT`; by default that of `MUSTER_ON`, else `local`. `socket` is that of a daemon, by
        default that of `MUSTER_SOCKET`, else this user's own, else the shared one. `binary` is the program
        `muster`. `virtual_gpus` are simulated GPUs of the daemon, if it has to be started.
        """
        given = socket if socket is not None else os.environ.get("MUSTER_SOCKET") or None
        preset = os.environ.get("MUSTER_ON") or None
        # The variable is for the daemon of this machine, as for the program.
        is_local = (on or preset or "local") == "local"
        named = os.fspath(given) if given is not None and (is_local or socket is not None) else None
        self.place: Place = place(on, named, os.fspath(binary), preset)
        self.virtual_gpus = None if virtual_gpus is None else str(virtual_gpus)

    def __repr__(self) -> str:
        return f"{type(self).__module__}.{type(self).__name__}({' '.join(self.place.program.options)})"
