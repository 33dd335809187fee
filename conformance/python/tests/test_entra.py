"""Clients that sign in with tokens of a directory, on a server whose keys are switched off. The tokens are real:
a test issuer signs them, and the server reads its key set. A credential here is what the SDK takes from
`azure-identity`, whose answers come from that issuer."""

import os
import time
import uuid
from types import SimpleNamespace

import pytest
import requests
from azure.core.credentials import AccessToken
from azure.cosmos import CosmosClient, PartitionKey
from azure.cosmos.exceptions import CosmosHttpResponseError

ENDPOINT = os.environ["ORRERY_ENTRA_ENDPOINT"]
ISSUER = os.environ["ORRERY_ISSUER"]
ADMINISTRATOR = os.environ["ORRERY_ADMINISTRATOR"]
# Of a server that knows keys, and no use here.
KEY = os.environ["ORRERY_KEY"]
READER = "00000000-0000-0000-0000-000000000001"
CONTRIBUTOR = "00000000-0000-0000-0000-000000000002"
ACTIONS = "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/"
HOUR_S = 3600


def token(principal, scope, lifetime_s=HOUR_S):
    asked = {"principal": principal, "scope": scope, "lifetime": lifetime_s}
    answer = requests.post(f"{ISSUER}token", json=asked, timeout=10)
    assert answer.status_code == 200, answer.text
    return answer.json()


class IssuerCredential:
    """Gets the tokens of one principal. The SDK keeps a token for as long as it seems valid."""

    def __init__(self, principal, lifetime_s=HOUR_S, scope=None):
        self.principal, self.lifetime_s, self.scope = principal, lifetime_s, scope
        self.scopes = []

    def get_token(self, *scopes, **_):
        self.scopes.append(scopes)
        made = token(self.principal, self.scope or scopes[0], self.lifetime_s)
        return AccessToken(made["access_token"], int(time.time()) + HOUR_S)


def connect(credential):
    return CosmosClient(ENDPOINT, credential, connection_verify=False, enable_endpoint_discovery=False)


def principal():
    return str(uuid.uuid4())


def assign(role, holder, scope):
    """Gives a role; the service has this in its management plane, so that no SDK has a method for it."""
    made = token(ADMINISTRATOR, "https://localhost/.default")
    answer = requests.post(
        f"{ENDPOINT}_roleassignments",
        json={"roleDefinitionId": role, "principalId": holder, "scope": scope},
        headers={"authorization": f"type=aad&ver=1.0&sig={made['access_token']}"},
        verify=False,
        timeout=10,
    )
    assert answer.status_code == 201, answer.text


@pytest.fixture(scope="module")
def shop():
    """A database with two containers, and a principal for each of several rights."""
    client = connect(IssuerCredential(ADMINISTRATOR))
    database = client.create_database(f"entra-{uuid.uuid4()}")
    orders, other = (database.create_container(id, PartitionKey("/pk")) for id in ("orders", "other"))
    for container in (orders, other):
        container.create_item({"id": "first", "pk": "p", "n": 1})
    shop = SimpleNamespace(database=database.id, reader=principal(), writer=principal(), clerk=principal())
    assign(READER, shop.reader, f"/dbs/{database.id}")
    assign(CONTRIBUTOR, shop.writer, f"/dbs/{database.id}")
    assign(CONTRIBUTOR, shop.clerk, f"/dbs/{database.id}/colls/orders")
    yield shop
    # With a new token: the issuer may have withdrawn the key of the first one.
    connect(IssuerCredential(ADMINISTRATOR)).delete_database(database.id)


def container(shop, holder, id="orders", **more):
    client = connect(IssuerCredential(holder, **more))
    return client.get_database_client(shop.database).get_container_client(id)


def refused(call, status, sub_status):
    with pytest.raises(CosmosHttpResponseError) as caught:
        call()
    found = (caught.value.status_code, caught.value.sub_status)
    assert found == (status, sub_status), caught.value
    return str(caught.value)


def test_a_data_contributor_reads_and_writes_items(shop):
    orders = container(shop, shop.writer)
    orders.create_item({"id": "a", "pk": "w", "n": 1})
    orders.upsert_item({"id": "b", "pk": "w", "n": 2})
    orders.replace_item("a", {"id": "a", "pk": "w", "n": 3})
    orders.patch_item("a", "w", [{"op": "incr", "path": "/n", "value": 4}])
    assert orders.read_item("a", "w")["n"] == 7
    batch = [("create", ({"id": "c", "pk": "w", "n": 5},)), ("read", ("a",)), ("delete", ("b",))]
    results = orders.execute_item_batch(batch, "w")
    assert [result["statusCode"] for result in results] == [201, 200, 204]
    rows = orders.query_items(
        "SELECT VALUE c.n FROM c WHERE c.pk = 'w' ORDER BY c.n", enable_cross_partition_query=True
    )
    assert list(rows) == [5, 7]
    changed = [item["id"] for item in orders.query_items_change_feed(is_start_from_beginning=True)]
    assert {"first", "a", "c"} <= set(changed)
    many = orders.read_items([("a", "w"), ("c", "w")])
    assert sorted(item["id"] for item in many) == ["a", "c"]
    for id in ("a", "c"):
        orders.delete_item(id, "w")
    assert list(orders.query_items("SELECT * FROM c", partition_key="w")) == []


def test_a_data_reader_reads_and_is_refused_every_write_by_name(shop):
    orders = container(shop, shop.reader)
    assert orders.read_item("first", "p")["n"] == 1
    assert list(orders.query_items("SELECT VALUE c.id FROM c", partition_key="p")) == ["first"]
    assert [item["id"] for item in orders.query_items_change_feed(is_start_from_beginning=True)] == ["first"]
    assert [item["id"] for item in orders.read_all_items()] == ["first"]
    item = {"id": "first", "pk": "p", "n": 2}
    patch = [{"op": "set", "path": "/n", "value": 2}]
    for action, call in [
        ("create", lambda: orders.create_item({"id": "x", "pk": "p"})),
        ("replace", lambda: orders.replace_item("first", item)),
        ("upsert", lambda: orders.upsert_item(item)),
        ("replace", lambda: orders.patch_item("first", "p", patch)),
        ("delete", lambda: orders.delete_item("first", "p")),
        ("delete", lambda: orders.delete_all_items_by_partition_key("p")),
        ("create", lambda: orders.execute_item_batch([("create", ({"id": "x", "pk": "p"},))], "p")),
    ]:
        text = refused(call, 403, 5302)
        expected = (
            f"principal [{shop.reader}] does not have required RBAC permissions to perform action "
            f"[{ACTIONS}items/{action}] on resource [dbs/{shop.database}/colls/orders]"
        )
        assert expected in text, text
    assert orders.read_item("first", "p")["n"] == 1


def test_management_needs_more_than_any_data_role(shop):
    client = connect(IssuerCredential(shop.writer))
    database = client.get_database_client(shop.database)
    orders = database.get_container_client("orders")
    for call in [
        lambda: client.create_database("none"),
        lambda: client.delete_database(shop.database),
        lambda: database.create_container("none", PartitionKey("/pk")),
        lambda: database.delete_container("orders"),
        lambda: orders.scripts.create_trigger(
            {"id": "t", "body": "function () {}", "triggerType": "Pre", "triggerOperation": "All"}
        ),
        lambda: database.create_user({"id": "u"}),
        orders.get_throughput,
    ]:
        text = refused(call, 403, 5300)
        assert "cannot be authorized by AAD token in data plane" in text, text
    # What it may read of the catalog.
    assert orders.read()["id"] == "orders"
    assert sorted(found["id"] for found in database.list_containers()) == ["orders", "other"]
    assert len(list(orders.read_feed_ranges())) >= 1


def test_a_role_at_a_container_ends_there(shop):
    own = container(shop, shop.clerk)
    own.create_item({"id": "own", "pk": "c"})
    own.delete_item("own", "c")
    other = container(shop, shop.clerk, "other")
    # The SDK reads the container first.
    refused(lambda: other.read_item("first", "p"), 403, 5301)
    client = connect(IssuerCredential(shop.clerk))
    refused(lambda: list(client.get_database_client(shop.database).list_containers()), 403, 5301)
    refused(lambda: list(client.list_databases()), 403, 5301)


def test_a_principal_without_a_role_and_a_key_open_nothing(shop):
    text = refused(lambda: container(shop, principal()).read_item("first", "p"), 403, 5301)
    assert "readMetadata" in text, text
    text = refused(lambda: connect(KEY), 401, 5202)
    assert "Local Authorization is disabled." in text, text


def test_an_expired_token_and_one_for_another_audience_are_refused(shop):
    refused(lambda: container(shop, shop.writer, lifetime_s=-HOUR_S).read_item("first", "p"), 401, 5006)
    other = "https://cosmos.azure.com/.default"
    refused(lambda: container(shop, shop.writer, scope=other).read_item("first", "p"), 401, 5008)


def test_the_sdk_asks_for_the_servers_own_name_or_for_the_scope_of_a_setting(shop, monkeypatch):
    for setting, expected in [
        (None, "https://localhost/.default"),
        ("https://db.example/.default", "https://db.example/.default"),
    ]:
        if setting:
            monkeypatch.setenv("AZURE_COSMOS_AAD_SCOPE_OVERRIDE", setting)
        credential = IssuerCredential(shop.reader)
        orders = connect(credential).get_database_client(shop.database).get_container_client("orders")
        assert orders.read_item("first", "p")["n"] == 1
        # Kept, and not got for each request.
        assert credential.scopes == [(expected,)]


def test_the_issuer_changes_its_signing_key_while_clients_work(shop):
    before = container(shop, shop.writer)
    before.upsert_item({"id": "r", "pk": "r", "n": 0})
    for n in range(2):
        # Of both kinds in turn: RSA, then an elliptic curve, or the other way round.
        assert requests.post(f"{ISSUER}keys", timeout=10).status_code == 200
        after = until(lambda: signed_in(shop))
        before.upsert_item({"id": "r", "pk": "r", "n": n})
        after.patch_item("r", "r", [{"op": "incr", "path": "/n", "value": 10}])
        assert before.read_item("r", "r")["n"] == n + 10, "the token of the old key is good while that is published"
        assert requests.delete(f"{ISSUER}keys", timeout=10).status_code == 200
        assert until(lambda: is_unknown(before)), "the old key is withdrawn"
        after.read_item("r", "r")
        before = after
    before.delete_item("r", "r")


def signed_in(shop):
    """A client with a token of the newest key, once the server has read the key set."""
    try:
        orders = container(shop, shop.writer)
        orders.read_item("first", "p")
        return orders
    except CosmosHttpResponseError as error:
        assert (error.status_code, error.sub_status) == (401, 5200), error
        return None


def is_unknown(orders):
    try:
        orders.read_item("first", "p")
        return False
    except CosmosHttpResponseError as error:
        assert (error.status_code, error.sub_status) == (401, 5200), error
        return True


def until(ask, seconds=30):
    """Asks until there is an answer."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := ask():
            return found
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s")
