"""Prints as JSON what a Ray cluster has, and what waits in it; reads the state API, never logs."""
import json
import logging
import os

logging.disable(logging.CRITICAL)

from ray._raylet import GcsClient
from ray.autoscaler.v2.sdk import get_cluster_status
from ray.util.state import list_actors, list_nodes, list_placement_groups, list_tasks

# The state API gives at most so many entries by default.
LIMIT = 10_000


def amounts(resources):
    """GPUs and CPUs of a set of resources."""
    return {name: resources[name] for name in ("GPU", "CPU") if resources and resources.get(name)}


def growth():
    """Further nodes that the cluster has asked for; see growth.py."""
    try:
        with open(os.path.join(os.environ["MUSTER_RAY_FOLDER"], "growth"), encoding="utf-8") as file:
            return json.load(file)
    except OSError:
        return None


def drivers():
    """Number of programs that use the cluster; the dashboard's own do not count."""
    jobs = GcsClient(address=os.environ["RAY_ADDRESS"]).get_all_job_info(timeout=10).values()
    return sum(not (job.is_dead or job.config.ray_namespace.startswith("_ray_internal_")) for job in jobs)


def main():
    options = {"limit": LIMIT, "detail": True, "raise_on_missing_output": False}
    cluster = get_cluster_status(os.environ["RAY_ADDRESS"])
    usage = cluster.cluster_resource_usage
    strategies = {one.pg_id: one.strategy for one in cluster.resource_demands.placement_group_demand}
    nodes = [node for node in list_nodes(**options) if node.state == "ALIVE"]
    groups = [group for group in list_placement_groups(**options) if group.state in ("PENDING", "RESCHEDULING")]
    actors = list_actors(filters=[("state", "!=", "DEAD")], **options)
    tasks = list_tasks(
        filters=[("state", "=", "PENDING_NODE_ASSIGNMENT"), ("type", "=", "NORMAL_TASK")], **options
    )
    status = {
        "growth": growth(),
        "drivers": drivers(),
        # Nodes of other jobs have a label; see launcher.py.
        "further": [amounts(node.resources_total) for node in nodes if "muster-job" in (node.labels or {})],
        "nodes": [amounts(node.resources_total) for node in nodes],
        "used": {one.resource_name: one.used for one in usage if one.resource_name in ("GPU", "CPU")},
        "groups": [
            {
                "name": group.name or group.placement_group_id[:8],
                "strategy": strategies.get(group.placement_group_id, ""),
                "state": group.state,
                "is_infeasible": (group.stats or {}).get("scheduling_state") == "INFEASIBLE",
                "bundles": [amounts(bundle["unit_resources"]) for bundle in group.bundles],
                "placed": sum(bool(bundle["node_id"]) for bundle in group.bundles),
            }
            for group in groups
        ],
        "actors": [
            {
                "name": actor.class_name,
                "driver": actor.job_id,
                "is_alive": actor.state == "ALIVE",
                "needs": amounts(actor.required_resources),
            }
            for actor in actors
            # Those of a group wait for it, or use what it holds.
            if actor.state == "ALIVE" or not actor.placement_group_id
        ],
        "tasks": [
            {"name": task.func_or_class_name, "driver": task.job_id, "needs": amounts(task.required_resources)}
            for task in tasks
            if not task.placement_group_id
        ],
    }
    print("\n" + json.dumps(status))


main()
