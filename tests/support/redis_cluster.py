"""A real Redis Cluster of three masters for tests: processes of their own, which keep their data over a kill."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from redis import Redis
from redis.exceptions import ResponseError

from tests.support.redis_server import RedisServer, free_port

_SLOTS = 16384
_FORM_S = 15.0
# Whole clusters stop when a slot has no master, unless told not to: then one dead node fails only its own keys.
_OPTIONS = (
    *("--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--cluster-require-full-coverage", "no"),
    *("--appendonly", "yes", "--appendfsync", "always", "--repl-diskless-sync-delay", "0"),
)

MakeNode = Callable[[Sequence[str]], RedisServer]


class ClusterServers:
    """What runs. `nodes` are three masters, each with a third of the slots."""

    def __init__(self, nodes: list[RedisServer], stack: ExitStack, make_node: MakeNode) -> None:
        self.nodes, self._stack, self._make_node = nodes, stack, make_node

    @property
    def url(self) -> str:
        """Of one node: the others are found from it."""
        return self.nodes[0].url

    def node_of(self, key: bytes) -> RedisServer:
        """The master that holds a key."""
        with Redis.from_url(self.url) as redis:
            slot = int(redis.execute_command("CLUSTER KEYSLOT", key))
            for first, last, (_, port, *_), *_ in redis.execute_command("CLUSTER SLOTS"):
                if first <= slot <= last:
                    return next(node for node in self.nodes if node.port == port)
        raise AssertionError(f"slot {slot} has no master")

    def add_replica(self, master: RedisServer) -> RedisServer:
        """A replica of that master, in step with it and known to all."""
        replica = self._stack.enter_context(self._make_node(_options()))
        with Redis.from_url(replica.url) as client, Redis.from_url(master.url) as source:
            name = source.execute_command("CLUSTER MYID")
            own = client.execute_command("CLUSTER MYID")
            _meet(source, replica)
            _until("it takes its part", lambda: _is_done(client, "CLUSTER REPLICATE", name))
            _until("it is in step", lambda: client.info("replication")["master_link_status"] == "up")
        for node in self.nodes:
            with Redis.from_url(node.url) as other:
                _until("all know it", lambda client=other: own in _replicas(client))  # type: ignore[misc]
        return replica


@contextmanager
def running_cluster(make_node: MakeNode = RedisServer) -> Iterator[ClusterServers]:
    """Three masters that have met; every slot has its master. `make_node` makes a server with given options."""
    with ExitStack() as stack:
        nodes = [stack.enter_context(make_node(_options())) for _ in range(3)]
        clients = [stack.enter_context(Redis.from_url(node.url)) for node in nodes]
        for place, client in enumerate(clients):
            first, last = (_SLOTS * end // 3 for end in (place, place + 1))
            client.execute_command("CLUSTER ADDSLOTSRANGE", first, last - 1)
            client.execute_command("CLUSTER SET-CONFIG-EPOCH", place + 1)
        for node in nodes[1:]:
            _meet(clients[0], node)
        _until("the cluster forms", lambda: all(_is_whole(client) for client in clients))
        yield ClusterServers(nodes, stack, make_node)


def _options() -> list[str]:
    return [*_OPTIONS, "--cluster-port", str(free_port())]


def _meet(client: "Redis[bytes]", node: RedisServer) -> None:
    with Redis.from_url(node.url) as other:
        bus = other.config_get("cluster-port")["cluster-port"]
    client.execute_command("CLUSTER MEET", "127.0.0.1", node.port, bus)


def _is_whole(client: "Redis[bytes]") -> bool:
    info = client.execute_command("CLUSTER INFO")
    told = info["cluster_state"], info["cluster_slots_ok"], info["cluster_known_nodes"]
    return told == ("ok", str(_SLOTS), "3")


def _is_done(client: "Redis[bytes]", *words: object) -> bool:
    try:
        return bool(client.execute_command(*words))
    except ResponseError:
        return False


def _replicas(client: "Redis[bytes]") -> set[bytes]:
    slots = client.execute_command("CLUSTER SLOTS")
    return {replica[2] for _, _, _, *replicas in slots for replica in replicas}


def _until(what: str, condition: Callable[[], bool]) -> None:
    until_s = time.monotonic() + _FORM_S
    while not condition():
        assert time.monotonic() < until_s, f"not within {_FORM_S} s: {what}"
        time.sleep(0.02)
