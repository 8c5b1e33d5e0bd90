"""Which replica is chosen, and how long a dead one rests."""

import pytest

from forebay.core.errors import CapacityUnavailable
from forebay.fleet.backoff import early_deaths_after, restart_wait_s
from forebay.fleet.choice import ReplicaSnapshot, choose
from forebay.fleet.pool import Pool
from forebay.fleet.replica import Endpoint, Replica
from forebay.fleet.settings import FleetSettings

ENDPOINT = Endpoint("http://127.0.0.1:1/v1", "m", "secret-token", True, "http://127.0.0.1:1/health")


def snapshot(name: str, outstanding: int, *, state: str = "ready", reachable: bool = True) -> ReplicaSnapshot:
    assert state in {"starting", "ready", "draining", "gone"}
    return ReplicaSnapshot(name, state, reachable, outstanding, 0, "")  # pyright: ignore[reportArgumentType]


def ready_replica(name: str) -> Replica:
    replica = Replica(name)
    replica.state, replica.reachable, replica.endpoint = "ready", True, ENDPOINT
    return replica


def test_the_least_busy_ready_replica_is_chosen() -> None:
    replicas = [snapshot("a", 2), snapshot("b", 1), snapshot("c", 1), snapshot("d", 0, state="starting")]
    assert choose(replicas, frozenset()) == 1
    assert choose(replicas, frozenset({"b"})) == 2
    assert choose(replicas, frozenset({"a", "b", "c"})) is None


@pytest.mark.parametrize("state", ["starting", "draining", "gone"])
def test_none_but_ready_and_reachable_ones(state: str) -> None:
    assert choose([snapshot("a", 0, state=state)], frozenset()) is None
    assert choose([snapshot("a", 0, reachable=False)], frozenset()) is None


def test_leases_spread_over_replicas_and_are_given_back() -> None:
    pool = Pool("p", [ready_replica("p-0"), ready_replica("p-1")], exact_fields=True)
    with pool.lease() as first, pool.lease() as second:
        assert {first.replica.name, second.replica.name} == {"p-0", "p-1"}
        assert [replica.outstanding for replica in pool.snapshots()] == [1, 1]
    assert [replica.outstanding for replica in pool.snapshots()] == [0, 0]


def test_a_lease_is_given_back_when_its_holder_fails() -> None:
    pool = Pool("p", [ready_replica("p-0")], exact_fields=True)
    with pytest.raises(ZeroDivisionError), pool.lease():
        raise ZeroDivisionError
    assert pool.snapshots()[0].outstanding == 0


def test_a_pool_without_a_ready_replica_says_so_and_when_to_come_back() -> None:
    replica = ready_replica("p-0")
    pool = Pool("p", [replica], exact_fields=True)
    assert pool.ready
    replica.suspect("cannot be reached")
    assert not pool.ready
    with pytest.raises(CapacityUnavailable, match="p-0 is unreachable") as refused, pool.lease():
        pass
    assert refused.value.retry_after_s is not None


def test_an_address_s_text_does_not_tell_its_key() -> None:
    assert "secret-token" not in repr(ENDPOINT)


def test_restarts_wait_twice_as_long_each_time_up_to_a_bound() -> None:
    settings = FleetSettings(restart_backoff_s=0.5, restart_backoff_max_s=30)
    assert [restart_wait_s(settings, deaths) for deaths in (1, 2, 3, 6, 7, 10_000)] == [0.5, 1, 2, 16, 30, 30]


def test_a_replica_that_proved_itself_starts_anew_at_once() -> None:
    settings = FleetSettings(restart_backoff_max_s=30)
    assert early_deaths_after(settings, 4, ready_s=29.9) == 5
    assert early_deaths_after(settings, 4, ready_s=30.0) == 1


def test_a_pool_whose_servers_speak_openai_s_api_alone_knows_no_extensions() -> None:
    plain = ready_replica("p-1")
    plain.endpoint = Endpoint("http://127.0.0.1:1/v1", "m", None, False, "http://127.0.0.1:1/v1/models")
    assert Pool("p", [ready_replica("p-0"), Replica("starting")], exact_fields=True).knows_extensions
    assert not Pool("p", [ready_replica("p-0"), plain], exact_fields=False).knows_extensions
