"""Writes the files of a folder as a wheel, with the list of their checksums: python3 write.py FOLDER WHEEL LEVEL."""

import base64
import hashlib
import os
import pathlib
import sys
import time
import zipfile

folder, wheel, level = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
moment = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6]
files = sorted(path for path in folder.rglob("*") if path.is_file())
# The standard wants the list as the last file of the archive.
record = next(folder.glob("*.dist-info")) / "RECORD"
lines = []
with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as archive:

    def add(path: pathlib.Path, content: bytes, mode: int) -> None:
        entry = zipfile.ZipInfo(path.relative_to(folder).as_posix(), moment)
        entry.external_attr = (0o100000 | mode) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(entry, content)

    for path in files:
        content = path.read_bytes()
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{path.relative_to(folder).as_posix()},sha256={digest},{len(content)}\n")
        add(path, content, 0o755 if os.access(path, os.X_OK) else 0o644)
    lines.append(f"{record.relative_to(folder).as_posix()},,\n")
    add(record, "".join(lines).encode(), 0o644)
