"""Serves an endpoint with Ray Serve: a replica for each GPU, behind a proxy on the node of the head.

The address is printed when all replicas answer. $PORT chooses the port; otherwise the system does.
"""
import os
import signal
import socket
import threading

import ray
from ray import serve


@serve.deployment(ray_actor_options={"num_gpus": 1, "num_cpus": 0})
class Model:
    """Stands for a model: answers with the number of the request's text, doubled."""

    async def __call__(self, request):
        return {"answer": 2 * int(request.query_params["number"])}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main():
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    ray.init()
    gpus = int(ray.cluster_resources().get("GPU", 0))
    port = int(os.environ.get("PORT") or free_port())
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    serve.run(Model.options(num_replicas=gpus).bind())
    print(f"{gpus} replicas at http://127.0.0.1:{port}/?number=21", flush=True)
    stopped.wait()
    serve.shutdown()


if __name__ == "__main__":
    main()
