"""Prints as JSON where Ray's dashboard listens on this node, and the secret that it asks for."""
import json
import os

from ray._raylet import GcsClient


def main():
    client = GcsClient(address=os.environ["RAY_ADDRESS"])
    address = client.internal_kv_get(b"dashboard", b"dashboard", timeout=10)
    port = int(address.decode().rpartition(":")[2]) if address else None
    print("\n" + json.dumps({"port": port, "token": os.environ.get("RAY_AUTH_TOKEN", "")}))


main()
