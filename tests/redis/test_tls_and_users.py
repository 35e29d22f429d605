"""TLS with client certificates, and a user for each part with what infra/docs/redis.md allows it and no more."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import orjson
import pytest
from redis import Redis
from redis.exceptions import NoPermissionError

from batch_scoring.bucket_writer import write_buckets
from batch_scoring.publishing.document import change_document, read_document
from batch_scoring.publishing.memory import room
from batch_scoring.settings import BatchSettings
from batch_scoring.store import connect, held, now_ms, unlink
from online.api.lookup.link import RedisLink
from online.api.lookup.resp import get, hget, parse_address
from online.inference.node.registry import Registry
from online.monitor.state import LiveStateReader
from schemas.keys import REPLICAS_KEY, generation_manifest_key, history_key, routes_key, run_key
from schemas.transitions import first_document
from tests.support.api_process import ApiProcess, wait_for
from tests.support.offers import offer
from tests.support.publish_cluster import written
from tests.support.redis_cluster import running_cluster
from tests.support.redis_tls import Certificates, TlsRedis
from tests.support.redis_users import documented_users
from tests.support.wire_worker import WireNode, served

PASSWORD = "s3cret"
PREFIX = "hs:delay:g:1:20261128T0200Z-1:"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def server(certificates: Certificates) -> Iterator[TlsRedis]:
    with TlsRedis(certificates) as running:
        for user, rules in documented_users(PASSWORD).items():
            running.define(user, rules)
        yield running


@pytest.fixture(autouse=True)
def empty(server: TlsRedis) -> None:
    with Redis.from_url(server.url) as admin:
        admin.flushall()
        admin.acl_log_reset()


def refusals(server: TlsRedis) -> list[object]:
    """What its users were refused since the test began."""
    with Redis.from_url(server.url) as admin:
        return list(admin.acl_log())


def publisher(server: TlsRedis) -> BatchSettings:
    return BatchSettings.model_validate({"redis_url": server.as_user("hotset-publisher", PASSWORD)})


def need_refused(server: TlsRedis, user: str, *commands: tuple[object, ...]) -> None:
    with Redis.from_url(server.as_user(user, PASSWORD)) as redis:
        for words in commands:
            with pytest.raises(NoPermissionError):
                redis.execute_command(*words)


def test_the_publishers_list_is_enough_and_no_more(server: TlsRedis) -> None:
    settings = publisher(server)
    assert write_buckets([(bucket, b"f", b"v") for bucket in range(5)], PREFIX, settings) == 5
    manifest = generation_manifest_key("delay", "1", "20261128T0200Z-1")
    with connect(settings) as redis:
        redis.set(manifest, b"{}")
        assert redis.exists(manifest)
        assert room(redis, settings).used > 0
        token = redis.incr(run_key("delay"))
        change_document(
            redis, "delay", "first", lambda _: first_document(offer(token, "delay"), now_ms(redis)), token
        )
        assert read_document(redis, "delay") is not None
        assert len(redis.lrange(history_key("delay"), 0, -1)) == 1
        pipeline = redis.pipeline(transaction=False)
        pipeline.hgetall(f"{PREFIX}1")
        pipeline.hget(f"{PREFIX}1", "f")
        assert pipeline.execute() == [{b"f": b"v"}, b"v"]
        assert redis.hgetall(REPLICAS_KEY) == {}
        assert held(redis, [f"{PREFIX}{bucket}" for bucket in range(9)]) == 5
        assert unlink(redis, [f"{PREFIX}{bucket}" for bucket in range(9)]) == 5
    assert refusals(server) == []
    need_refused(
        server,
        "hotset-publisher",
        ("FLUSHALL",),
        ("KEYS", "*"),
        ("CONFIG", "GET", "*"),
        ("SET", "hs:delay:l:1:e", "v"),
        ("HSET", REPLICAS_KEY, "n", "v"),
        ("GET", "hs:{other}:routes"),
        ("PUBLISH", "hs:{other}:changed", ""),
    )


async def test_the_replicas_and_the_monitors_lists_are_enough_and_no_more(server: TlsRedis) -> None:
    with connect(publisher(server)) as redis:
        redis.set(run_key("delay"), 1)
        change_document(redis, "delay", "first", lambda _: first_document(offer(1, "delay"), 1000), 1)
    version = {"model": "delay", "version": "1", "tau0_ms": 6.0, "alpha_ms": 1.2, "max_batch_rows": 64}
    registry = Registry(server.as_user("hotset-replica", PASSWORD), "n1", lambda: {"versions": [version]})
    task = asyncio.create_task(registry.run())
    with LiveStateReader(server.as_user("hotset-monitor", PASSWORD), 1.0) as reader:
        for _ in range(200):
            state = await asyncio.to_thread(reader.read, "delay")
            if state.replicas:
                break
            await asyncio.sleep(0.02)
        changes, problem = await asyncio.to_thread(reader.history, "delay")
    assert ([change.why for change in changes], problem) == (["first"], None)
    assert (state.problem, state.nodes) == (None, 1)
    assert state.routes is not None
    task.cancel()
    await asyncio.wait([task])
    assert refusals(server) == []
    with Redis.from_url(server.url) as admin:
        assert not admin.exists(REPLICAS_KEY)
    writes = ("SET", routes_key("delay"), "{}"), ("HSET", REPLICAS_KEY, "n", "v"), ("GET", f"{PREFIX}1"), ("INFO",)
    need_refused(server, "hotset-monitor", *writes)
    need_refused(server, "hotset-replica", *writes[:1], *writes[2:], ("HGETALL", REPLICAS_KEY))


def test_the_apis_list_is_enough_and_no_more(server: TlsRedis, tmp_path: Path) -> None:
    """A whole API over TLS: hits, live answers, write-backs, an invalidation, and a switch by announcement."""
    model = written(tmp_path, server.as_user("hotset-publisher", PASSWORD), "delay", hot=300, cold=20)
    model.publish_night()
    worker = served(model.raw, model.forward)
    token = tmp_path / "token"
    token.write_text("t" * 32)
    token.chmod(0o600)
    settings = {
        "redis_url": server.as_user("hotset-api", PASSWORD),
        "models": ["delay"],
        "admin_token_file": str(token),
    }
    with WireNode(worker) as node, ApiProcess(tmp_path, nodes=[node.address], **settings) as api:
        api.wait_ready()

        def ask(entity: str) -> dict[str, object]:
            return dict(api.client.get(f"/v1/models/delay/predictions/{entity}").json())

        assert ask("hot1")["source"] == "precomputed"
        assert ask("cold1")["source"] == "live"
        wait_for(lambda: ask("cold1")["source"] == "cached", what="the write-back")
        bring = {"entity": "mine", "features": {"distance": 4}}
        assert api.client.post("/v1/models/delay/predict", json=bring).json()["source"] == "live"
        answer = api.client.post(
            "/v1/models/delay/predictions:invalidate",
            json={"entities": ["hot1"]},
            headers={"Authorization": f"Bearer {'t' * 32}"},
        )
        assert answer.status_code == 200, answer.text
        assert ask("hot1")["source"] != "precomputed"
        model.publish_night("20261129T0200Z-1", revision=2)
        wait_for(lambda: ask("hot2")["generation"] == "20261129T0200Z-1", 5, "the switch")
        assert PASSWORD not in api.log_tail()
    assert refusals(server) == []
    need_refused(
        server,
        "hotset-api",
        ("FLUSHALL",),
        ("KEYS", "*"),
        ("INFO",),
        ("DEL", "hs:delay:l:1:cold1"),
        ("SET", routes_key("delay"), "{}"),
        ("SET", f"{PREFIX}1", "v"),
        ("HSET", f"{PREFIX}1", "f", "v"),
        ("GET", "hs:other:l:1:e"),
        ("SUBSCRIBE", "hs:{other}:changed"),
    )


async def opens(url: str, wait_s: float = 2.0) -> bool:
    async with RedisLink(parse_address(url), 0.5, 1.0) as link:
        for _ in range(int(wait_s / 0.01)):
            if link.is_open:
                break
            await asyncio.sleep(0.01)
        return link.is_open and isinstance((await link.ask([get(b"k")]))[0], bytes | None)


async def test_credentials_are_percent_decoded(server: TlsRedis) -> None:
    user, password = "a:b@c/d%20?", "p/w:@#?& +%41é"
    server.define(user, ["on", f">{password}", "~*", "-@all", "+ping", "+get"])
    assert await opens(server.as_user(user, password))
    assert not await opens(server.as_user(user, password.replace("%41", "A")), 0.3)


async def test_who_is_not_who_the_certificate_says_is_not_asked(
    server: TlsRedis, certificates: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.define("any", ["on", ">any", "~*", "-@all", "+ping", "+get"])
    assert await opens(server.as_user("any", "any"))
    other_ca = Certificates(tmp_path).path("ca.crt")
    assert not await opens(server.as_user("any", "any", ssl_ca_certs=other_ca), 0.3)
    assert "certificate verify failed" in told(caplog)
    certificates.server("elsewhere", "DNS:elsewhere.test")
    with TlsRedis(certificates, server="elsewhere") as elsewhere:
        elsewhere.define("any", ["on", ">any", "~*", "-@all", "+ping", "+get"])
        assert not await opens(elsewhere.as_user("any", "any"), 0.3)
        assert "IP address mismatch" in told(caplog)
        assert await opens(elsewhere.as_user("any", "any", ssl_check_hostname="false"))


async def test_without_a_client_certificate_the_server_refuses(server: TlsRedis) -> None:
    server.define("any", ["on", ">any", "~*", "-@all", "+ping", "+get"])
    url = server.as_user("any", "any")
    assert await opens(url)
    bare = "&".join(part for part in url.split("&") if not part.startswith(("ssl_certfile", "ssl_keyfile")))
    assert not await opens(bare, 0.3)


async def test_a_cluster_with_tls_and_users(certificates: Certificates) -> None:
    """Each node's certificate is verified by the address that the node tells."""
    nodes: list[TlsRedis] = []

    def make_node(options: Sequence[str]) -> TlsRedis:
        nodes.append(TlsRedis(certificates, options))
        return nodes[-1]

    with running_cluster(make_node):
        for node in nodes:
            for user, rules in documented_users(PASSWORD).items():
                node.define(user, rules)
        assert write_buckets([(bucket, b"f", b"v") for bucket in range(60)], PREFIX, publisher(nodes[0])) == 60
        with LiveStateReader(nodes[1].as_user("hotset-monitor", PASSWORD), 1.0) as reader:
            assert reader.read("delay").problem is None
        async with RedisLink(parse_address(nodes[2].as_user("hotset-api", PASSWORD)), 0.5, 1.0) as link:
            for _ in range(200):
                if link.is_open:
                    break
                await asyncio.sleep(0.01)
            asked = [hget(f"{PREFIX}{bucket}".encode(), b"f") for bucket in range(60)]
            assert await link.ask(asked) == [b"v"] * 60
        assert [refusals(node) for node in nodes] == [[]] * 3


def told(caplog: pytest.LogCaptureFixture) -> str:
    return orjson.dumps([vars(record).get("error", "") for record in caplog.records]).decode()
